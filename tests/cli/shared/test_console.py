import io
import itertools
import sys
import time

import pytest

from sottovoce.cli.shared.console import track


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("seconds", "visible"), [(0.001, False), (1.0, True)])
def test_bar_appears_only_when_work_takes_long(
    monkeypatch: pytest.MonkeyPatch, seconds: float, visible: bool
) -> None:
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    clock = itertools.count(step=seconds)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    assert list(track(range(20), "Counting", unit="numbers")) == list(range(20))
    assert ("Counting" in stderr.getvalue()) == visible


def test_a_line_now_and_then_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    clock = itertools.count(step=1.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    assert list(track(range(50), "Counting", unit="numbers", total=50)) == list(range(50))
    assert stderr.getvalue() == "Counting: 5 of 50 numbers\nCounting: 35 of 50 numbers\n"


def test_nothing_in_a_pipe_if_it_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    assert list(track("abc", "Counting")) == ["a", "b", "c"]
    assert stderr.getvalue() == ""
