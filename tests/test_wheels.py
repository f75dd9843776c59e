"""Wheels as users install them: with and without compiled kernels, and without torch."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
NEEDED = ("pyproject.toml", "hatch_build.py", "README.md", "CHANGELOG.md", "LICENSE")

pytestmark = pytest.mark.skipif(
    find_spec("hatchling") is None, reason="hatchling is not installed (extra `dev`)"
)


def build(folder: Path, compiler: str | None = None) -> Path:
    """The wheel of a copy of the sources, without what was compiled in place."""
    source = folder / "source"
    ignored = shutil.ignore_patterns("_*.so", "__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    for name in NEEDED:
        shutil.copy(ROOT / name, source)
    environment = dict(os.environ) | ({} if compiler is None else {"CC": compiler})
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("pure"), compiler="/nonexistent")


@pytest.fixture(scope="module")
def installed(pure: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel without kernels beside just what it requires: no extra, so no torch."""
    folder = tmp_path_factory.mktemp("installed")
    install(pure, folder)
    for name in closure(required_by(pure)):
        for entry in top_level(name):
            target = folder / entry.name
            if not target.exists():
                target.symlink_to(entry)
    return folder


def install(wheel: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
               "--no-deps", "--no-index", "--target", str(folder), str(wheel)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def required_by(wheel: Path) -> list[str]:
    (metadata,) = (n for n in zipfile.ZipFile(wheel).namelist() if n.endswith("/METADATA"))
    lines = zipfile.ZipFile(wheel).read(metadata).decode().splitlines()
    return [line.removeprefix("Requires-Dist: ") for line in lines if "Requires-Dist: " in line]


def closure(requirements: Sequence[str]) -> set[str]:
    """What an installation without extras brings along."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        requirement = Requirement(waiting.pop())
        package = canonicalize_name(requirement.name)
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if not wanted or package in found:
            continue
        try:
            waiting += distribution(package).requires or ()
        except PackageNotFoundError:  # optional on this platform
            continue
        found.add(package)
    return found


def top_level(name: str) -> set[Path]:
    """Files and folders of a distribution at the top of site-packages."""
    package = distribution(name)
    names = {path.parts[0] for path in package.files or () if path.parts[0] not in ("..", ".")}
    site = Path(str(package.locate_file("")))
    return {site / each for each in names if each != "__pycache__" and (site / each).exists()}


def run(folder: Path, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command line of the installation, with nothing else to import."""
    return python(folder, "from sottovoce.cli.main import main; main()", *arguments, cwd=cwd)


def python(
    folder: Path, code: str, *arguments: object, cwd: Path
) -> subprocess.CompletedProcess[str]:
    alone = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(folder)!r})"]
    alone[-1] += f"; {code}"
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd)}
    return subprocess.run(
        [*alone, *map(str, arguments)], cwd=cwd, env=environment, capture_output=True, text=True
    )


def test_without_a_compiler_the_wheel_is_for_every_platform(pure: Path) -> None:
    assert pure.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(pure).namelist() if name.endswith(".so")]


def test_with_kernels_the_wheel_names_its_platform(tmp_path: Path) -> None:
    wheel = build(tmp_path)
    kernels = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]
    if not kernels:
        pytest.skip("no kernel can be compiled here")
    assert "-py3-none-any" not in wheel.name
    folder = tmp_path / "installed"
    install(wheel, folder)
    assert all((folder / name).is_file() for name in kernels)


def test_the_tables_of_words_and_pages_are_in_the_wheel(pure: Path) -> None:
    names = zipfile.ZipFile(pure).namelist()
    for ending in (
        "default.tagger",
        "minilm.adapter",
        "expectations.json",
        "general.tagger",
        "first_names.txt",
        "health.toml",
        "page.html",
        "py.typed",
    ):
        assert any(name.endswith(ending) for name in names), ending


def test_verbs_that_need_no_torch_run_without_it(installed: Path, tmp_path: Path) -> None:
    assert not (installed / "torch").exists()
    (tmp_path / "notes.txt").write_text("call maria at 555-0123\n")
    epsilon = ["--strategy", "word", "--p", 0.99, "--pi-min", 0.01, "--tokens", 10]
    commands: list[list[object]] = [
        ["--help"],
        ["epsilon", "deid", *epsilon, "--delta", 1e-6],
        ["corpus", "make", "health", "-o", "health.jsonl", "--size", 50, "--seed", 7],
        ["deid", "notes.txt", "-o", "released.txt", "--strategy", "typed"],
        ["deid", "health.jsonl", "-o", "released.jsonl", "--strategy", "typed"],
        ["report", ".", "-o", "report.html"],
        ["serve", "--help"],
        ["rescore", "--help"],
    ]
    # One process for all of them, since most of the time is spent on imports.
    code = f"""from sottovoce.cli.main import sottovoce
for arguments in {[[str(word) for word in each] for each in commands]}:
    try:
        sottovoce.main(arguments, standalone_mode=False)
    except SystemExit:  # the decision of the report is not to release
        assert arguments[0] == "report"
assert not set(sys.modules) & {{"torch", "transformers", "fastapi"}}"""
    done = python(installed, "exec(sys.argv[1])", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "555-0123" not in (tmp_path / "released.txt").read_text()
    assert (tmp_path / "report.html").stat().st_size > 1000


def test_verbs_that_need_torch_name_the_extra(installed: Path, tmp_path: Path) -> None:
    run(installed, "corpus", "make", "health", "-o", "h.jsonl", "--size", 50, cwd=tmp_path)
    done = run(installed, "train", "h.jsonl", "--split", "80:10:10", "-o", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "Error: Expected the package torch, which is not installed: pip install 'sottovoce[train]'."
    ]
    failed = python(installed, "from sottovoce import Ledger, Plan", cwd=tmp_path)
    assert failed.stderr.rstrip().endswith("not installed: pip install 'sottovoce[train]'.")
