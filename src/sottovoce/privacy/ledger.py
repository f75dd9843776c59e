"""The ledger: a write-ahead log of everything spent on one privacy unit.

The code that adds noise calls `spend` *before* it releases anything: `spend` refuses what would
exceed the budget, records the fact (on disk, if the ledger has a file), and only then returns. So
after a crash at any point the ledger covers at least what was released.
"""

import functools
import hashlib
import os
import secrets
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, NamedTuple, NoReturn, ParamSpec, Self, TypeVar

from sottovoce import _validate
from sottovoce.errors import (
    BudgetExceeded,
    CannotAccount,
    InvalidInput,
    LedgerDamaged,
    UnchainedLedger,
)
from sottovoce.privacy.accounting import Entry, account
from sottovoce.privacy.facts import Fact, Unprotected, fact_from_json
from sottovoce.privacy.guarantee import Budget, Guarantee, Relation, Unit, rounded_up
from sottovoce.privacy.ledgers.chain import Chain, Head, Link, Record
from sottovoce.privacy.ledgers.history import MOST_EXECUTIONS, History, common, header
from sottovoce.privacy.ledgers.journal import Journal, create, read_journal

__all__ = ["Budget", "Head", "Ledger"]

NOT_CLOSED = "nothing was spent after the last record of this ledger, which was not closed"
INTERRUPTED = "no record was lost where the ledger was interrupted"

P = ParamSpec("P")
R = TypeVar("R")
L = TypeVar("L", bound="Ledger")


def _locked(
    method: Callable[Concatenate[L, P], R],
) -> Callable[Concatenate[L, P], R]:
    """Hold the lock, and finish an interrupted write of another thread first."""

    @functools.wraps(method)
    def locked(self: L, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            self._recover()
            return method(self, *args, **kwargs)

    return locked


class _LookAhead(NamedTuple):
    """Cached bounds on how many executions of a fact fit the budget after `earlier` entries."""

    earlier: int
    fact: Fact
    fits_up_to: int = 0
    too_many: int | None = None


class Ledger:
    """An append-only list of executed facts with one unit and one relation.

    >>> from sottovoce.privacy.facts import BoundedRelease
    >>> ledger = Ledger(unit=Unit.USER, relation=Relation.ADD_OR_REMOVE,
    ...                 budget=Budget(epsilon=1.0, delta=0.0))
    >>> release = BoundedRelease(unit=Unit.USER, mechanism="histogram", epsilon=0.4)
    >>> ledger.spend(release); ledger.spend(release)
    >>> ledger.entries
    (Entry(fact=BoundedRelease(...), count=2),)
    >>> ledger.spend(release)
    Traceback (most recent call last):
    sottovoce.errors.BudgetExceeded: Spending this bounded-release would bring epsilon to 1.2, above
    the budget of 1 at delta 0; nothing was released.

    A ledger belongs to the process that created it; spending in a fork is refused. It is
    thread-safe.
    """

    def __init__(
        self,
        *,
        unit: Unit,
        relation: Relation,
        budget: Budget | None = None,
        seed_hint: str | None = None,
    ) -> None:
        """Start a ledger in memory. A `seed_hint` makes the id of a seeded run reproducible."""
        chain = Chain()
        chain.append(chain.next(_new_header(unit, relation, budget, seed_hint)))
        self._begin(chain, copied=False)
        self._opened = True

    def _begin(self, chain: Chain, *, copied: bool, journal: Journal | None = None) -> None:
        self._chain, self._journal, self._copied = chain, journal, copied
        self._history = History.of(chain)
        self._opening = self._new_opening()
        self._opened = self._closed = self._was_left_open = False
        self._ahead: _LookAhead | None = None
        self._writing: Link | None = None
        self._process = os.getpid()
        self._lock = threading.RLock()
        _LEDGERS.add(self)

    @classmethod
    def of(
        cls,
        entries: Iterable[Entry],
        *,
        unit: Unit,
        relation: Relation,
        budget: Budget | None = None,
        assumptions: Iterable[str] = (),
        not_covered: Iterable[str] = (),
    ) -> Self:
        """A ledger of past releases, recorded in full even if they exceed the budget."""
        ledger = cls(unit=unit, relation=relation, budget=budget)
        for entry in entries:
            ledger._record(entry.fact, _whole_number(entry.count))
        for sentence in assumptions:
            ledger.assume(sentence)
        for sentence in not_covered:
            ledger.leave_uncovered(sentence)
        return ledger

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        unit: Unit,
        relation: Relation,
        budget: Budget | None = None,
        durable: bool = True,
        seed_hint: str | None = None,
    ) -> Self:
        """Start a ledger in a file, or continue the one that is there.

        A budget given here must equal the one in the file: reopening cannot raise a budget.
        """
        start = _new_header(unit, relation, budget, seed_hint)
        is_new = False
        if not os.path.lexists(path):
            chain = Chain()
            chain.append(chain.next(start))
            try:
                create(path, chain.lines())
                is_new = True
            except FileExistsError:
                pass  # another process created it first
        journal = Journal(path, durable=durable)
        try:
            ledger = cls._of(journal.chain, path, copied=False, journal=journal)
            wanted = History(start)
            if (ledger.unit, ledger.relation) != (wanted.unit, wanted.relation):
                raise InvalidInput(
                    f"Expected {path} to protect one {wanted.unit} under {wanted.relation}, but it "
                    f"is the ledger of one {ledger.unit} under {ledger.relation}."
                )
            if budget is not None and budget != ledger.budget:
                raise InvalidInput(
                    f"Expected the budget of {path}, which is {ledger.budget}, got {budget}."
                )
        except BaseException:
            journal.release()
            raise
        ledger._opened = is_new and ledger.head.records == 1
        ledger._was_left_open = not is_new and not ledger.sealed
        return ledger

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """An in-memory copy of a ledger file, even while another process writes to it."""
        ledger = cls._of(read_journal(path).chain, path, copied=True)
        # Continuing from a file that was not closed counts as an interruption.
        ledger._was_left_open, ledger._copied = not ledger.sealed, ledger.sealed
        return ledger

    @classmethod
    def _of(
        cls, chain: Chain, path: Path | str | None, *, copied: bool, journal: Journal | None = None
    ) -> Self:
        ledger = cls.__new__(cls)
        try:
            ledger._begin(chain, copied=copied, journal=journal)
        except LedgerDamaged as problem:
            raise LedgerDamaged(f"{path}: {problem}" if path else str(problem)) from problem
        return ledger

    @property
    def unit(self) -> Unit:
        return self._history.unit

    @property
    def relation(self) -> Relation:
        return self._history.relation

    @property
    def budget(self) -> Budget | None:
        return self._history.budget

    @property
    def id(self) -> str | None:
        """The unique id, shared by copies of this ledger; None in files of early versions."""
        return self._history.id

    @property
    def has_own_id(self) -> bool:
        """Whether the id is unique: not if it was derived from a seed."""
        return self.id is not None and not self.id.startswith(_SEEDED)

    @property
    def head(self) -> Head:
        """The number of records and the hash over all of them."""
        return self._chain.head

    @property
    def sealed(self) -> bool:
        """Whether the ledger was closed after its last record; if not, records may be missing."""
        return self._history.sealed

    @property
    def interruptions(self) -> int:
        """How often the ledger was reopened without having been closed."""
        return self._history.interruptions

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids of all runs recorded here; see `new_run`."""
        return tuple(self._history.runs)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The executed facts; consecutive equal facts are one entry with a count."""
        return tuple(self._history.spent)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return tuple(self._history.assumptions)

    @property
    def not_covered(self) -> tuple[str, ...]:
        return tuple(self._history.not_covered)

    def spend(self, fact: Fact, count: int = 1) -> None:
        """Record that `fact` is about to be executed `count` times, or refuse it."""
        self._check_process()
        self._spend(fact, count)

    def void(self, reason: str) -> None:
        """Permanently withdraw the guarantee of everything released so far.

        For a release that did not match the recorded fact. No budget can refuse this, because the
        release has already happened. When this returns, the reason is on disk.
        """
        self._check_process()
        self._void(reason)

    def new_run(self, seed_hint: str | None = None) -> str:
        """A run id that is unique in this ledger, for a training run or any other series of spends.

        Prefix pool names with it to keep them distinct from those of other runs. It is random, or
        derived from the hint for reproducible runs.
        """
        self._check_process()
        return self._new_run(seed_hint)

    def resume_run(self, run: str) -> None:
        """Go on with a run of this file after an interruption: its pools, named `RUN: ...`, too.

        Whoever resumes states that the records of the run so far and those to come are disjoint in
        its pools, as if it had not been interrupted. Only a file can be resumed, which one process
        has at a time: two copies in memory would both go on.
        """
        self._check_process()
        if self._journal is None or run not in self.runs:
            raise InvalidInput(f"Expected a run in the file of this ledger to resume, got {run!r}.")
        with self._lock:
            self._write({"resumed": run})

    def assume(self, sentence: str) -> None:
        """Record an assumption that the guarantee depends on."""
        self._note("assume", sentence)

    def leave_uncovered(self, sentence: str) -> None:
        """Record a use of private data that no fact in this ledger covers."""
        self._note("not-covered", sentence)

    @_locked
    def guarantee(self, delta: float | None = None, *, population: int | None = None) -> Guarantee:
        """The guarantee for everything spent so far; delta defaults to the budget's.

        If `population`, the public number of units, is given, delta is checked against it.
        """
        if delta is None:
            if self.budget is None:
                raise InvalidInput("Expected a delta, because this ledger has no budget.")
            delta = self.budget.delta
        return self._account(self._history.spent, delta, population)

    def includes(self, other: "Ledger") -> bool:
        """Whether this ledger contains everything in `other`, a copy of it."""
        ours, theirs = self._history, other._history
        if (theirs.id, other.head) in ours.absorbed:
            return True
        spent = sum(count for _, count in theirs.events)
        return ours.id == theirs.id and common(ours.events, theirs.events) == spent

    def union(self, other: "Ledger") -> Self:
        """Add what `other`, a copy of this ledger, has spent and this one has not.

        If one is a prefix of the other, the result is the longer one. If they diverged, both
        branches count. The budget cannot refuse what has already happened. A ledger that is not a
        copy of this one is added as a whole.
        """
        self._check_process()
        if (self.unit, self.relation) != (other.unit, other.relation):
            raise CannotAccount(
                f"Expected a ledger that protects one {self.unit} under {self.relation}, got one "
                f"that protects one {other.unit} under {other.relation}."
            )
        return self._union(other)

    def sync(self) -> None:
        """Flush to disk; call it before writing a checkpoint or output that this ledger covers."""
        if self._journal is not None and self._process == os.getpid():
            self._journal.sync()

    def close(self) -> None:
        """Seal the ledger; nothing more can be spent in it until it is opened again."""
        if self._process != os.getpid():
            return  # a fork does not own the ledger
        with self._lock:
            try:
                self._recover()
                if self._opened and not self._closed and not self.sealed:
                    self._write({"sealed": True})
                self.sync()
            finally:
                self._closed = True
                if self._journal is not None:
                    self._journal.release(unlock=True)

    def save(self, path: Path | str) -> None:
        """Write an in-memory ledger to a new file; existing files are never overwritten."""
        with self._lock:
            self._recover()
            whole = Chain.from_json(self._chain.to_json())
        if not self.sealed:
            whole.append(whole.next({"sealed": True}))
        try:
            create(path, whole.lines())
        except FileExistsError:
            raise InvalidInput(
                f"Expected a new file for the ledger, but {path} exists: choose another path."
            ) from None

    @_locked
    def to_json(self) -> dict[str, Any]:
        """The whole ledger as one JSON object, for run.json and for checkpoints."""
        return {"records": self._chain.to_json(), "head": self.head.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """A copy of a ledger, verified against its hash."""
        if not isinstance(data, Mapping) or not isinstance(data.get("records"), list):
            raise InvalidInput('Expected a ledger in JSON with a list of "records".')
        ledger = cls._of(Chain.from_json(data["records"]), None, copied=True)
        if "head" not in data and ledger.id is None:
            warnings.warn(
                "A JSON ledger of an earlier version has no hash: it may have been altered, and "
                "batches of several training runs may count as one epoch.",
                UnchainedLedger,
                stacklevel=2,
            )
        elif data.get("head") != ledger.head.to_json():
            raise LedgerDamaged(
                f"Expected the records of ledger {ledger.id} to match their hash; records were "
                "altered or lost. Restore the file from a copy."
            )
        return ledger

    @_locked
    def _spend(self, fact: Fact, count: int) -> None:
        count = _whole_number(count)
        spent = self._history.spent
        repeats = bool(spent) and spent[-1].fact == fact
        # Use a copy from here on: the caller may still change its object.
        own = spent[-1].fact if repeats else _read_back(fact)
        own = self._history.scoped(own, None if self._opened else self._opening)
        if own.unit != self.unit:
            raise CannotAccount(
                f"Expected a fact that protects one {self.unit}, got one that protects one "
                f"{own.unit}; keep one ledger for each privacy unit."
            )
        if self.budget is not None:
            self._check_budget(own, count)
        self._record(own, count)

    @_locked
    def _void(self, reason: str) -> None:
        if not isinstance(reason, str) or not reason.strip():
            raise InvalidInput(f"Expected a reason as text, got {reason!r}.")
        self._record(Unprotected(unit=self.unit, reason=reason), 1)
        self.sync()

    @_locked
    def _new_run(self, seed_hint: str | None) -> str:
        first = _identifier(seed_hint)
        run, times = first, 1
        while run in self._history.runs:
            times += 1
            run = f"{first}-{times}"
        self._write({"run": run})
        return run

    @_locked
    def _union(self, other: "Ledger") -> Self:
        theirs = other._history
        if not self.includes(other):
            spends = [
                [entry.fact.to_json(), entry.count] for entry in theirs.missing_in(self._history)
            ]
            source = {"id": theirs.id, "head": other.head.to_json()}
            # A single record makes the union atomic.
            self._write({"absorb": source, "spends": spends})
            self.sync()
        for sentence in theirs.assumptions:
            self.assume(sentence)
        for sentence in theirs.not_covered:
            self.leave_uncovered(sentence)
        return self

    def _note(self, kind: str, sentence: str) -> None:
        if not isinstance(sentence, str) or not sentence.strip():
            raise InvalidInput(f"Expected a sentence, got {sentence!r}.")
        notes = {"assume": self.assumptions, "not-covered": self.not_covered}
        if sentence not in notes[kind]:
            self._check_process()
            self._write_note({kind: sentence})

    @_locked
    def _write_note(self, record: Record) -> None:
        self._write(record)

    def _account(
        self, spent: Iterable[Entry], delta: float, population: int | None = None
    ) -> Guarantee:
        assumptions = list(self._history.assumptions)
        if self._was_left_open:
            assumptions.append(NOT_CLOSED)
        if self.interruptions:
            assumptions.append(INTERRUPTED)
        return account(
            spent,
            unit=self.unit,
            relation=self.relation,
            delta=delta,
            population=population,
            assumptions=assumptions,
            not_covered=self._history.not_covered,
        )

    def _check_budget(self, fact: Fact, count: int) -> None:
        """Look ahead by doubling, then bisection, so that most steps need no accounting."""
        assert self.budget is not None
        spent = self._history.spent
        repeats = bool(spent) and spent[-1].fact == fact
        earlier = spent[:-1] if repeats else spent
        wanted = count + (spent[-1].count if repeats else 0)
        known = self._ahead
        if known is None or (known.earlier, known.fact) != (len(earlier), fact):
            known = _LookAhead(len(earlier), fact)
        while wanted > known.fits_up_to:
            ahead = 2 * wanted if known.too_many is None else (wanted + known.too_many) // 2
            ahead = max(min(ahead, MOST_EXECUTIONS), wanted)
            after = self._account([*earlier, Entry(fact, ahead)], self.budget.delta)
            if after.holds and after.epsilon <= self.budget.epsilon:
                known = known._replace(fits_up_to=ahead)
            elif ahead > wanted:
                known = known._replace(too_many=ahead)
            else:
                reached = (
                    f"would bring epsilon to {rounded_up(after.epsilon)}, above"
                    if after.holds
                    else f"would give no guarantee ({after.reasons[0]}), against"
                )
                raise BudgetExceeded(
                    f"Spending this {fact.kind} {reached} the budget of {self.budget.epsilon:g} at "
                    f"delta {self.budget.delta:g}; nothing was released."
                )
        self._ahead = known

    def _record(self, fact: Fact, count: int) -> None:
        spent = self._history.spent
        if spent and spent[-1].fact == fact:
            self._write({"again": count})
        else:
            self._write({"spend": fact.to_json(), "count": count})

    def _write(self, record: Record) -> None:
        """Append one record: first on disk, then in memory."""
        if self._closed:
            raise InvalidInput(
                "Expected an open ledger, got a closed one: open it again to continue."
            )
        if not self._opened:
            self._write_one({"opened": self._opening, "copy": self._copied})
            self._opened = True
        self._write_one(record)

    def _write_one(self, record: Record) -> None:
        link = self._chain.next(record)
        apply = self._history.validated(link.record)
        self._writing = link
        if self._journal is not None:
            self._journal.append(link)
        self._chain.append(link)
        apply()
        self._was_left_open, self._writing = False, None

    def _recover(self) -> None:
        """After a failed or interrupted write, restore the state that the file has."""
        if self._writing is not None:
            self._ahead = None
            in_file = self._journal is not None and self._journal.head == self._writing.head
            if in_file and self._chain.head != self._writing.head:
                self._chain.append(self._writing)
            self._history = History.of(self._chain)
            self._writing = None

    def _new_opening(self) -> str:
        """A unique name for this opening; reproducible if the ledger is seeded."""
        if self.id is not None and self.id.startswith(_SEEDED):
            return hashlib.sha256(f"{self.id} {self.head.sha256}".encode()).hexdigest()[:16]
        return secrets.token_hex(8)

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise InvalidInput(
                "Expected spending in the process that created this ledger, got a fork: its "
                "spending would not be recorded in the original. Spend before the fork, or open a "
                "separate ledger in it."
            )

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "Expected a ledger to stay in its process, got a pickle or a copy: its spending would "
            "not be recorded in the original. Send ledger.to_json() instead."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


_SEEDED = "seeded-"
_NO_PROCESS = -1
_LEDGERS: "weakref.WeakSet[Ledger]" = weakref.WeakSet()


def _release_in_fork() -> None:
    """In a fork: release the file lock, and reset locks held by threads that no longer exist."""
    for ledger in list(_LEDGERS):
        ledger._lock = threading.RLock()
        ledger._process = _NO_PROCESS  # process ids can be reused
        if ledger._journal is not None:
            ledger._journal.release()


os.register_at_fork(after_in_child=_release_in_fork)


def _new_header(
    unit: Unit, relation: Relation, budget: Budget | None, seed_hint: str | None
) -> Record:
    if not (budget is None or isinstance(budget, Budget)):
        raise InvalidInput(f"Expected a Budget, got {budget!r}.")
    name = _identifier(seed_hint)
    return header(
        _validate.choice("unit", unit, Unit),
        _validate.choice("relation", relation, Relation),
        budget,
        name if seed_hint is None else f"{_SEEDED}{name}",
    )


def _identifier(seed_hint: str | None) -> str:
    if seed_hint is None:
        return secrets.token_hex(8)
    if not isinstance(seed_hint, str):
        raise InvalidInput(f"Expected text as a seed hint, got {seed_hint!r}.")
    return hashlib.sha256(seed_hint.encode()).hexdigest()[:16]


def _whole_number(count: int) -> int:
    try:
        exact = count.__index__()
    except AttributeError:
        exact = 0
    if isinstance(count, bool) or not 1 <= exact <= MOST_EXECUTIONS:
        raise InvalidInput(f"Expected count to be a whole number from 1 to 2^53, got {count!r}.")
    return exact


def _read_back(fact: Fact) -> Fact:
    """The fact after a round trip through JSON."""
    if not isinstance(fact, Fact):
        raise InvalidInput(f"Expected a fact, got {fact!r}.")
    try:
        return fact_from_json(Chain().next(fact.to_json()).record)
    except TypeError as problem:
        raise InvalidInput(
            f"Expected a fact that can be written as JSON, but {problem}."
        ) from problem
