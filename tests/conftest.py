"""What tests of several parts share: the public datasets, the benchmarks and the command line."""

import importlib
import io
import math
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from sottovoce.cli.main import main
from sottovoce.cli.shared import console

# A busy machine is no reason for a property to fail.
settings.register_profile(
    "sottovoce", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("sottovoce")


def pytest_configure() -> None:
    """A shell lets what it starts in the background ignore Ctrl-C, and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Result(NamedTuple):
    """What a run of the command left behind."""

    exit_code: int
    stdout: str
    stderr: str


RunCli = Callable[..., Result]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public datasets beside the repository; without it the test is skipped."""
    folder = Path(__file__).parents[1].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the public datasets (../shared/data) are not here")
    return folder


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """The scripts of `benchmarks/`, as modules."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return importlib.import_module


@pytest.fixture
def run_cli(monkeypatch: pytest.MonkeyPatch) -> RunCli:
    """Run `sottovoce ARGS...` in this process, through `main()`, so exit codes are the real ones.

    `run_cli("corpus", "show", path, input=b"...")` gives the exit code and what was printed;
    `input` (text or bytes) is standard input. None of the three streams is a terminal.
    """

    def run(*args: object, input: str | bytes = b"") -> Result:
        given = input.encode() if isinstance(input, str) else input
        streams = [io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")]
        streams += [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
        exit_code = 0
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["sottovoce", *map(str, args)])
            patch.setattr(console, "FIRST_LINE", math.inf)  # a busy machine changes no output
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patch.setattr(sys, name, stream)
            try:
                main()
            except SystemExit as end:
                exit_code = end.code if isinstance(end.code, int) else 1
        for stream in streams[1:]:
            stream.seek(0)
        return Result(exit_code, streams[1].read(), streams[2].read())

    return run
