"""Forks, threads, other processes and failing disks: the ledger counts every spend, or refuses."""

import contextlib
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce.errors import BudgetExceeded, InvalidInput, LedgerDamaged, SottovoceError
from sottovoce.privacy.facts import BoundedRelease, Fact
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.ledger import Budget, Ledger
from sottovoce.privacy.ledgers.chain import Link
from sottovoce.privacy.ledgers.journal import Journal

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

HALF = BoundedRelease(unit=Unit.USER, mechanism="histogram", epsilon=0.5)
TENTH = BoundedRelease(unit=Unit.USER, mechanism="count", epsilon=0.1)
LARGE = BoundedRelease(unit=Unit.USER, mechanism="table", epsilon=0.6)
ONE = Budget(epsilon=1.0, delta=0.0)


def opened(path: Path, budget: Budget | None = None, *, durable: bool = False) -> Ledger:
    return Ledger.open(
        path, unit=Unit.USER, relation=Relation.REPLACE_ONE, budget=budget, durable=durable
    )


def in_memory(budget: Budget | None = None) -> Ledger:
    return Ledger(unit=Unit.USER, relation=Relation.REPLACE_ONE, budget=budget)


def epsilon(ledger: Ledger) -> float:
    return ledger.guarantee(0.0).epsilon


# -- forks ---------------------------------------------------------------------------------------


def released_by_forks(attempt: Callable[[], object], children: int = 6) -> int:
    """How many children could act."""
    released = 0
    for _ in range(children):
        child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(SottovoceError):
                attempt()
                status = 0
            os._exit(status)
        released += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return released


@pytest.mark.parametrize("in_file", [True, False])
def test_a_fork_does_not_spend_in_private(tmp_path: Path, in_file: bool) -> None:
    ledger = opened(tmp_path / "ledger.jsonl", ONE) if in_file else in_memory(ONE)
    for attempt in (
        lambda: ledger.spend(HALF),
        lambda: ledger.void("why"),
        lambda: ledger.assume("nothing"),
        lambda: ledger.union(in_memory()),
    ):
        assert released_by_forks(attempt, children=2) == 0
    assert released_by_forks(lambda: ledger.spend(HALF)) == 0
    ledger.spend(HALF)  # the parent goes on
    ledger.close()
    if in_file:
        read = Ledger.read(tmp_path / "ledger.jsonl")
        assert (epsilon(read), read.sealed) == (0.5, True)


def test_twin_without_the_check_six_forks_spend_three_of_a_budget_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = in_memory(ONE)
    monkeypatch.setattr(Ledger, "_check_process", lambda self: None)
    assert released_by_forks(lambda: ledger.spend(HALF)) == 6
    assert epsilon(ledger) == 0


def test_a_fork_with_the_same_number_is_still_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container of its own a child can have the process id of its parent."""
    ledger = in_memory(ONE)
    number = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: number)
    assert released_by_forks(lambda: ledger.spend(HALF)) == 0
    ledger.spend(HALF)


def test_a_fork_can_read_and_does_not_seal(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = opened(path)
    ledger.spend(HALF)

    def look() -> None:
        if epsilon(ledger) != 0.5:
            raise InvalidInput("Expected what the parent spent.")
        ledger.close()

    assert released_by_forks(look, children=1) == 1
    assert not Ledger.read(path).sealed
    ledger.spend(HALF)
    ledger.close()


def test_a_fork_that_lives_on_does_not_keep_the_file_locked(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = opened(path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent is done
        os._exit(0)
    try:
        ledger.close()
        opened(path).close()
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)


# -- another process -------------------------------------------------------------------------------


def test_a_second_process_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    code = (
        "import sys; from sottovoce.privacy.ledger import Ledger\n"
        "Ledger.open(sys.argv[1], unit='user', relation='replace-one')"
    )
    with opened(path) as ledger:
        ledger.spend(HALF)
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True
        )
        assert "another process" in done.stderr
        ledger.spend(HALF)
    assert epsilon(Ledger.read(path)) == 1.0


def replaced_while_locking(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking, somebody puts another file in the place of this one."""
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    real = fcntl.flock

    def late(file: int, operation: int) -> None:
        copy.replace(path)
        real(file, operation)
        monkeypatch.setattr(fcntl, "flock", real)

    monkeypatch.setattr(fcntl, "flock", late)


def test_a_lock_on_a_file_that_was_replaced_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    opened(path).close()
    replaced_while_locking(path, monkeypatch)
    with pytest.raises(LedgerDamaged, match="replaced"):
        opened(path)


def test_twin_without_the_look_at_the_path_entries_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    opened(path).close()
    replaced_while_locking(path, monkeypatch)
    monkeypatch.setattr(Journal, "_check_unchanged", lambda self: None)
    with opened(path) as ledger:
        ledger.spend(HALF)
    assert epsilon(Ledger.read(path)) == 0


def delete(path: Path) -> None:
    path.unlink()


def replace_it(path: Path) -> None:
    path.with_name("new").write_bytes(path.read_bytes())
    path.with_name("new").replace(path)


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


def append(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"{}\n")


def move(path: Path) -> None:
    path.rename(path.with_name("moved"))


def link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))


@pytest.mark.parametrize("change", [delete, replace_it, shorten, append, move, link])
def test_a_file_that_changes_under_the_ledger_stops_it(
    tmp_path: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = opened(path)
    ledger.spend(HALF)
    change(path)
    for _ in range(2):
        with pytest.raises(LedgerDamaged, match="nothing was released"):
            ledger.spend(HALF)
    assert epsilon(ledger) == 0.5
    # The twin: without the look at the file, the ledger spends on.
    monkeypatch.setattr(Journal, "_check_unchanged", lambda self: None)
    ledger.spend(HALF)
    assert epsilon(ledger) == 1.0


def test_a_change_of_folder_does_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with opened(Path("ledger.jsonl")) as ledger:
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        ledger.spend(HALF)
    assert epsilon(Ledger.read(tmp_path / "ledger.jsonl")) == 0.5


# -- failing disks and interrupts -----------------------------------------------------------------


def failing(monkeypatch: pytest.MonkeyPatch, problem: BaseException, name: str = "fsync") -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(os, name, fail)


def spend_on_a_disk_that_fails_now_and_then(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> int:
    """Try 0.6 and 0.1 in turns, the disk failing at every 0.1; how often 0.6 was let through."""
    released = 0
    for _ in range(20):
        with contextlib.suppress(BudgetExceeded):
            ledger.spend(LARGE)
            released += 1
        with monkeypatch.context() as context:
            failing(context, OSError(28, "No space left on device"))
            with contextlib.suppress(OSError, BudgetExceeded):
                ledger.spend(TENTH)
    return released


def test_a_failed_append_leaves_no_stale_look_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    with opened(path, ONE, durable=True) as ledger:
        assert spend_on_a_disk_that_fails_now_and_then(ledger, monkeypatch) == 1
    assert epsilon(Ledger.read(path)) == 0.6


def test_twin_a_look_ahead_that_forgets_what_it_was_for_overruns_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Ledger._check_budget

    def stale(self: Ledger, fact: Fact, count: int) -> None:
        repeats = bool(self.entries) and self.entries[-1].fact == fact
        if repeats and self._ahead is not None:
            self._ahead = self._ahead._replace(earlier=len(self.entries) - 1, fact=fact)
        real(self, fact, count)

    monkeypatch.setattr(Ledger, "_check_budget", stale)
    monkeypatch.setattr(Ledger, "_recover", lambda self: None)
    with opened(tmp_path / "ledger.jsonl", ONE, durable=True) as ledger:
        assert spend_on_a_disk_that_fails_now_and_then(ledger, monkeypatch) > 1
        assert epsilon(ledger) > 1.0


@pytest.mark.parametrize("name", ["fsync", "write", "lseek"])
@pytest.mark.parametrize("problem", [OSError(5, "I/O error"), KeyboardInterrupt()])
def test_after_a_failure_or_an_interrupt_the_ledger_goes_on_as_one_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: BaseException, name: str
) -> None:
    path = tmp_path / "ledger.jsonl"
    with opened(path, durable=True) as ledger:
        ledger.spend(HALF)
        with monkeypatch.context() as context:
            failing(context, problem, name)
            with pytest.raises(type(problem)):
                ledger.spend(TENTH)
        ledger.spend(HALF)
        assert epsilon(ledger) == 1.0
    assert epsilon(Ledger.read(path)) == 1.0


def test_an_interrupt_after_the_line_was_written_counts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    with opened(path) as ledger:
        real = Journal.append

        def late(self: Journal, link: Link) -> None:
            real(self, link)
            raise KeyboardInterrupt

        with monkeypatch.context() as context:
            context.setattr(Journal, "append", late)
            with pytest.raises(KeyboardInterrupt):
                ledger.spend(HALF)
        assert epsilon(ledger) == 0.5
        ledger.spend(TENTH)
    assert epsilon(Ledger.read(path)) == pytest.approx(0.6)


def test_a_record_that_can_be_neither_written_nor_taken_back_ends_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(tmp_path / "ledger.jsonl", durable=True)
    with monkeypatch.context() as context:
        failing(context, OSError(5, "I/O error"), "fsync")
        failing(context, OSError(5, "I/O error"), "ftruncate")
        with pytest.raises(OSError, match="I/O"):
            ledger.spend(HALF)
    with pytest.raises(LedgerDamaged, match="open the ledger again"):
        ledger.spend(HALF)


def test_a_signal_that_spends_while_a_spend_is_written_does_not_break_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = opened(path)
    real = Journal.append

    def interrupted(self: Journal, link: Link) -> None:
        monkeypatch.setattr(Journal, "append", real)
        ledger.spend(TENTH)  # what a handler of a signal might do
        real(self, link)

    monkeypatch.setattr(Journal, "append", interrupted)
    with pytest.raises(LedgerDamaged, match="nothing was released"):
        ledger.spend(HALF)
    ledger.spend(HALF)
    ledger.close()
    assert epsilon(Ledger.read(path)) == pytest.approx(epsilon(ledger)) == pytest.approx(0.6)


# -- threads --------------------------------------------------------------------------------------


def spend_from_threads(ledger: Ledger, threads: int = 16, times: int = 5) -> int:
    released: list[int] = []

    def work() -> None:
        for _ in range(times):
            with contextlib.suppress(BudgetExceeded):
                ledger.spend(TENTH)
                released.append(1)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    return len(released)


@pytest.mark.parametrize("in_file", [True, False])
def test_threads_never_overrun_the_budget(tmp_path: Path, in_file: bool) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = opened(path, ONE) if in_file else in_memory(ONE)
    assert spend_from_threads(ledger) == 10
    assert sum(entry.count for entry in ledger.entries) == 10
    ledger.close()
    if in_file:
        assert sum(entry.count for entry in Ledger.read(path).entries) == 10


def test_threads_lose_no_entry_without_a_budget(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with opened(path) as ledger:
        assert spend_from_threads(ledger, threads=8, times=50) == 400
    assert sum(entry.count for entry in Ledger.read(path).entries) == 400


def test_twin_without_turns_two_threads_pass_the_same_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = in_memory(Budget(epsilon=0.1, delta=0.0))
    both_have_looked = threading.Barrier(2)
    real = Ledger._check_budget

    def slow(self: Ledger, fact: Fact, count: int) -> None:
        real(self, fact, count)
        both_have_looked.wait(timeout=60)

    monkeypatch.setattr(Ledger, "_check_budget", slow)
    monkeypatch.setattr(ledger, "_lock", contextlib.nullcontext())
    assert spend_from_threads(ledger, threads=2, times=1) == 2
