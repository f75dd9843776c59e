"""Compiling the kernels, and what is said where that is not possible."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compiling import why_not_compiled

from sottovoce import kernels
from sottovoce.kernels import KERNELS, NotBuilt, build, library

pytestmark = pytest.mark.parametrize("source", KERNELS, ids=lambda source: source.stem)


@pytest.fixture(autouse=True)
def compiler(source: Path) -> None:
    """Where nothing can be compiled at all, these tests say nothing."""
    if reason := why_not_compiled(source):
        pytest.skip(reason)


@pytest.mark.parametrize(
    ("compiler", "reason"), [("/nonexistent", "no C compiler"), ("false", "failed to compile")]
)
def test_without_a_compiler_nothing_is_built(
    source: Path, compiler: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", compiler)
    with pytest.raises(NotBuilt, match=reason):
        build(source, tmp_path)
    assert not list(tmp_path.iterdir())


def test_other_processors_are_not_tried(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(NotBuilt, match="is not supported"):
        build(source, tmp_path)


def test_a_folder_that_cannot_be_written_to(source: Path, tmp_path: Path) -> None:
    with pytest.raises(NotBuilt, match="is not writable"):
        build(source, tmp_path / "missing")


def test_building_by_hand_reports_one_line_per_kernel(source: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", kernels.__name__]
    run = subprocess.run(
        command, env={**os.environ, "CC": "/nonexistent"}, capture_output=True, text=True
    )
    assert run.returncode == 1
    said = run.stderr.splitlines()
    assert len(said) == len(KERNELS) + 1
    assert f"The kernel {source.stem} was not built: no C compiler" in run.stderr
    assert said[-1] == "sottovoce works without them, more slowly."


def test_the_name_of_the_library_tells_its_platform(source: Path, tmp_path: Path) -> None:
    built = build(source, tmp_path)
    assert built == library(source, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [built.name]
