"""Every benchmark explains itself, has the shared options, and is in the table of the README."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__main__")

# All in one process, so that torch is loaded once. Whatever --help writes would be found below.
ASK_FOR_HELP = """
import contextlib, io, json, runpy, sys
found = {}
for path in sys.argv[1:]:
    said, code = io.StringIO(), None
    sys.argv = [path, "--help"]
    with contextlib.redirect_stdout(said):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
    found[path] = [code, said.getvalue()]
print(json.dumps(found))
"""


def contents(folder: Path) -> dict[Path, tuple[int, int]]:
    """Every file below, with its size and time; what Python compiles does not count."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


@pytest.fixture(scope="module")
def help_texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What every script says to --help, having ended well and written nothing."""
    here, temporary = (tmp_path_factory.mktemp(name) for name in ("here", "temporary"))
    paths = [str(FOLDER / f"{name}.py") for name in (*SCRIPTS, "__main__")]
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": str(FOLDER)}
    environment["PYTHONPATH"] += os.pathsep + os.environ.get("PYTHONPATH", "")
    before = contents(FOLDER / "results")
    done = subprocess.run(
        [sys.executable, "-c", ASK_FOR_HELP, *paths],
        cwd=here, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert contents(FOLDER / "results") == before
    # Libraries may leave folders of their own behind; a benchmark would write a file of its name.
    assert not contents(here)
    assert not list(temporary.glob("sottovoce-*"))
    found = json.loads(done.stdout.splitlines()[-1])
    assert {Path(path).stem: code for path, (code, _) in found.items()} == dict.fromkeys(
        (*SCRIPTS, "__main__"), 0
    )
    return {Path(path).stem: said for path, (_, said) in found.items()}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_says_what_it_does_and_has_the_shared_options(
    name: str, help_texts: dict[str, str]
) -> None:
    said = help_texts[name]
    assert f"python benchmarks/{name}.py" in said
    assert "--quick" in said
    assert "-o OUTPUT, --output OUTPUT" in said
    module = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert module.startswith('"""'), "the first line says which question it answers"


def test_the_runner_says_what_it_does(help_texts: dict[str, str]) -> None:
    assert "--quick" in help_texts["__main__"]


def test_the_readme_lists_every_benchmark_and_no_other() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)\.py`", page, re.MULTILINE)) == SCRIPTS


def test_every_result_belongs_to_a_benchmark() -> None:
    assert {path.stem for path in (FOLDER / "results").glob("*.json")} <= set(SCRIPTS)


def test_what_is_only_imported_is_not_among_what_is_run() -> None:
    for name in SCRIPTS:
        source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        assert '__name__ == "__main__"' in source
        others = "|".join(SCRIPTS)
        assert not re.search(rf"^(from|import) ({others})\b", source, re.MULTILINE)


@pytest.fixture
def options(benchmark: Callable[[str], ModuleType]) -> Any:
    return benchmark("helpers.options")


def test_quick_writes_elsewhere_unless_told_where(options: Any, tmp_path: Path) -> None:
    parser = options.parser_of("benchmarks/noise.py", "What it is.")
    parser.add_argument("--rounds", type=int, default=7)
    usual = options.options_of(parser, [], quick={"rounds": 1})
    assert (usual.output, usual.rounds) == (FOLDER / "results" / "noise.json", 7)
    parser = options.parser_of("benchmarks/noise.py", "What it is.")
    parser.add_argument("--rounds", type=int, default=7)
    quick = options.options_of(parser, ["--quick"], quick={"rounds": 1})
    assert (quick.output.name, quick.rounds) == ("noise.json", 1)
    assert FOLDER not in quick.output.parents
    quick.output.parent.rmdir()
    own = ["--quick", "--rounds", "3", "-o", str(tmp_path / "here.json")]
    told = options.options_of(parser, own, quick={"rounds": 1})
    assert (told.output, told.rounds) == (tmp_path / "here.json", 3)


def test_missing_data_is_a_failure_unless_the_run_is_quick(
    options: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = options.parser_of("benchmarks/deid.py", "What it is.", data="recall")
    given = options.options_of(parser, ["--data", str(tmp_path), "-o", "x"])
    with pytest.raises(SystemExit) as end:
        options.without_data(given, "nlu")
    assert "name the folder with --data" in str(end.value.code)
    given.quick = True
    with pytest.raises(SystemExit) as end:
        options.without_data(given, "nlu")
    assert end.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_the_folder_of_data_can_be_set_for_all(
    options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(options.DATA_VARIABLE, "/somewhere")
    parser = options.parser_of("benchmarks/deid.py", "What it is.", data="recall")
    assert options.options_of(parser, []).data == Path("/somewhere")


def test_the_neighbour_check_is_timed_where_it_is_on_and_silent_where_it_is_off(
    benchmark: Callable[[str], ModuleType],
) -> None:
    from sottovoce.corpora.synthetic import generate

    check = benchmark("neighbour_check")
    utterances = list(generate("communication", size=40, seed=1))
    clock = check.Clock()
    runner = check.Runner.of("clc", utterances, 4, seed=0)
    with check.without_check(), check.timed_check(clock):
        pass
    with check.without_check():
        runner.step()
    assert clock == check.Clock()
    with check.timed_check(clock):
        runner.step()
    assert clock.checks == 1
    assert clock.passes >= 3
    assert 0 < clock.seconds <= runner.seconds


def test_medians_are_taken_over_the_runs_of_a_model(benchmark: Callable[[str], ModuleType]) -> None:
    check = benchmark("neighbour_check")
    runs = [
        {
            "model": "clc", "steps": 200, "ratio": ratio, "ratio_inside": 1.01,
            "share_inside": 0.01, "steps_checked": 5, "seconds_without": 2.0,
        }
        for ratio in (1.0, 1.03, 1.01)
    ]  # fmt: skip
    (row,) = check.medians(runs)
    assert (row["ratio"], row["milliseconds_a_step"]) == (1.01, 10.0)
