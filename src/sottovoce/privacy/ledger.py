"""The ledger: what was spent, in the order it was spent, on one privacy unit.

`spend` is called by the code that adds noise, *before* anything is released: it refuses what would
overrun the budget, writes the fact down (on disk, if the ledger has a file), and only then returns.
So a crash at any instant leaves a ledger that has counted at least what was released.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sottovoce import _validate
from sottovoce.errors import BudgetExceeded, CannotAccount, InvalidInput, LedgerDamaged
from sottovoce.privacy.accounting import Entry, account
from sottovoce.privacy.facts import Fact, Unprotected, fact_from_json
from sottovoce.privacy.guarantee import Guarantee, Relation, Unit, rounded_up
from sottovoce.privacy.journal import Journal, Record, read_records

# A journal holds one line a step; when it is opened again, runs of equal steps become one line.
_COMPACT_ABOVE = 256


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that may be spent."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _validate.positive("the budget's epsilon", self.epsilon)
        _validate.delta(self.delta, "the budget's delta")


class Ledger:
    """Facts of executed mechanisms, append-only, with one unit and one relation.

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
    """

    def __init__(self, *, unit: Unit, relation: Relation, budget: Budget | None = None) -> None:
        self.unit, self.relation, self.budget = unit, relation, budget
        self._runs: list[Entry] = []
        self._assumptions: list[str] = []
        self._not_covered: list[str] = []
        self._journal: Journal | None = None
        # How many executions of the newest fact are known to fit the budget, and not to.
        self._fits_up_to = 0
        self._too_many: int | None = None

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        unit: Unit,
        relation: Relation,
        budget: Budget | None = None,
        durable: bool = True,
    ) -> Self:
        """Start a ledger in a file, or continue the one that is there.

        A budget given now replaces the one in the file only if the file has none or an equal one:
        budgets are not raised in passing.
        """
        with ExitStack() as undo:
            journal = Journal(path, durable=durable)
            undo.callback(journal.close)
            if not journal.records:
                journal.append(_header(unit, relation, budget))
            ledger = cls._replayed(journal.records, journal.path)
            if (ledger.unit, ledger.relation) != (unit, relation):
                raise InvalidInput(
                    f"Expected {path} to protect one {unit} under {relation}, but it is the ledger "
                    f"of one {ledger.unit} under {ledger.relation}."
                )
            if budget is not None and budget != ledger.budget:
                raise InvalidInput(
                    f"Expected the budget of {path}, which is {ledger.budget}, got {budget}."
                )
            if len(journal.records) > _COMPACT_ABOVE:
                journal.rewrite(ledger._records())
            undo.pop_all()  # from here on the ledger owns the journal
        ledger._journal = journal
        return ledger

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """A copy in memory of a ledger on disk, also while another process writes to it."""
        return cls._replayed(read_records(path), Path(path))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What was spent; equal facts in a row are one entry with a count."""
        return tuple(self._runs)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return tuple(self._assumptions)

    @property
    def not_covered(self) -> tuple[str, ...]:
        return tuple(self._not_covered)

    def spend(self, fact: Fact, count: int = 1) -> None:
        """Write down that `fact` is about to happen `count` times, or refuse it."""
        _validate.at_least_one("count", count)
        if fact.unit is not self.unit:
            raise CannotAccount(
                f"Expected a fact that protects one {self.unit}, got one that protects one "
                f"{fact.unit}; keep one ledger for each privacy unit."
            )
        if self.budget is not None:
            self._check_budget(fact, count, repeats=self._repeats(fact))
        self._record(fact, count)

    def void(self, reason: str) -> None:
        """Withdraw the guarantee of everything released so far, for good.

        For a release that turned out not to be what was paid for. No budget can refuse this: the
        release has happened. When this returns, the reason is on disk.
        """
        self._record(Unprotected(unit=self.unit, reason=reason), 1)
        self.sync()

    def assume(self, sentence: str) -> None:
        """Note something that must be true for the guarantee to hold."""
        self._note("assume", sentence, self._assumptions)

    def leave_uncovered(self, sentence: str) -> None:
        """Note a use of private data that no fact in this ledger pays for."""
        self._note("not-covered", sentence, self._not_covered)

    def guarantee(self, delta: float | None = None, *, population: int | None = None) -> Guarantee:
        """What holds after everything that was spent; delta defaults to the budget's.

        Delta is judged against the population, the public number of units, where that is given.
        """
        if delta is None:
            if self.budget is None:
                raise InvalidInput("Expected a delta, because this ledger has no budget.")
            delta = self.budget.delta
        return self._account(self._runs, delta, population)

    def sync(self) -> None:
        """Reach the disk: call it before writing a checkpoint or an output that was paid here."""
        if self._journal is not None:
            self._journal.sync()

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def to_json(self) -> dict[str, Any]:
        """The whole ledger as one value, for run.json and for checkpoints."""
        return {"records": list(self._records())}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        if not isinstance(data.get("records"), list):
            raise InvalidInput('Expected a ledger in JSON with a list of "records".')
        return cls._replayed(data["records"], None)

    def _account(
        self, runs: Iterable[Entry], delta: float, population: int | None = None
    ) -> Guarantee:
        return account(
            runs,
            unit=self.unit,
            relation=self.relation,
            delta=delta,
            population=population,
            assumptions=self._assumptions,
            not_covered=self._not_covered,
        )

    def _check_budget(self, fact: Fact, count: int, *, repeats: bool) -> None:
        """Look ahead by doubling, then by halving, so that most steps need no accounting at all."""
        assert self.budget is not None
        earlier = self._runs[:-1] if repeats else self._runs
        wanted = count + (self._runs[-1].count if repeats else 0)
        if not repeats:
            self._fits_up_to, self._too_many = 0, None
        while wanted > self._fits_up_to:
            ahead = 2 * wanted if self._too_many is None else (wanted + self._too_many) // 2
            ahead = max(ahead, wanted)
            after = self._account([*earlier, Entry(fact, ahead)], self.budget.delta)
            if after.holds and after.epsilon <= self.budget.epsilon:
                self._fits_up_to = ahead
            elif ahead > wanted:
                self._too_many = ahead
            else:
                reached = (
                    f"would bring epsilon to {rounded_up(after.epsilon)}, above"
                    if after.holds
                    else f"comes with no guarantee ({after.reasons[0]}), against"
                )
                raise BudgetExceeded(
                    f"Spending this {fact.kind} {reached} the budget of {self.budget.epsilon:g} at "
                    f"delta {self.budget.delta:g}; nothing was released."
                )

    def _repeats(self, fact: Fact) -> bool:
        return bool(self._runs) and self._runs[-1].fact == fact

    def _record(self, fact: Fact, count: int) -> None:
        if self._journal is not None:
            self._journal.append(
                {"again": count} if self._repeats(fact) else _spending(fact, count)
            )
        self._append(fact, count)

    def _append(self, fact: Fact, count: int) -> None:
        if self._runs and self._runs[-1].fact == fact:
            count += self._runs.pop().count
        self._runs.append(Entry(fact, count))

    def _note(self, kind: str, sentence: str, notes: list[str]) -> None:
        if sentence not in notes:
            if self._journal is not None:
                self._journal.append({kind: sentence})
            notes.append(sentence)

    def _records(self) -> Iterable[Record]:
        yield _header(self.unit, self.relation, self.budget)
        yield from ({"assume": sentence} for sentence in self._assumptions)
        yield from ({"not-covered": sentence} for sentence in self._not_covered)
        yield from (_spending(run.fact, run.count) for run in self._runs)

    @classmethod
    def _replayed(cls, records: Sequence[Record], path: Path | None) -> Self:
        where = f" in {path}" if path else ""
        try:
            header = records[0]["ledger"]
            budget = Budget(**header["budget"]) if header["budget"] else None
            ledger = cls(
                unit=Unit(header["unit"]), relation=Relation(header["relation"]), budget=budget
            )
            for record in records[1:]:
                match record:
                    case {"spend": fact, "count": int(count)}:
                        ledger._append(fact_from_json(fact), count)
                    case {"again": int(count)}:
                        ledger._append(ledger._runs[-1].fact, count)
                    case {"assume": str(sentence)}:
                        ledger._assumptions.append(sentence)
                    case {"not-covered": str(sentence)}:
                        ledger._not_covered.append(sentence)
                    case _:
                        raise LedgerDamaged(f"Expected a ledger record{where}, got {record}.")
        except (LookupError, TypeError) as problem:
            raise LedgerDamaged(f"Expected a ledger{where}, but {problem!r}.") from problem
        return ledger

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _header(unit: Unit, relation: Relation, budget: Budget | None) -> Record:
    limits = {"epsilon": budget.epsilon, "delta": budget.delta} if budget else None
    return {"ledger": {"unit": str(unit), "relation": str(relation), "budget": limits}}


def _spending(fact: Fact, count: int) -> Record:
    return {"spend": fact.to_json(), "count": count}
