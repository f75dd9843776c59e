"""The state of a ledger, reconstructed by replaying its records.

| record | meaning |
|---|---|
| `ledger` | the header: an id, the unit, the relation, the budget |
| `opened` | the ledger was opened again, perhaps by another process |
| `run` | the id of a run (a training, for example) that spends here |
| `resumed` | the id of an earlier run that goes on after an interruption |
| `spend`, `again` | a fact executed `count` times; `count` more executions of the last fact |
| `absorb` | spending of another copy of this ledger that this one lacked |
| `assume`, `not-covered` | notes for the guarantee |
| `sealed` | closed: the records up to here are complete |

A *scope* is an opening, or a run within it. Pools of different scopes are different even if they
have the same name: the batches of two epochs called `epoch 0` are not disjoint.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sottovoce.errors import InvalidInput, LedgerDamaged
from sottovoce.privacy.accounting import Entry
from sottovoce.privacy.facts import Fact, fact_from_json
from sottovoce.privacy.guarantee import Budget, Relation, Unit
from sottovoce.privacy.ledgers.chain import Chain, Head, Record, Run

MOST_EXECUTIONS = 2**53
"""Larger counts are not exact in floating-point accountants."""

Event = Fact | str
"""What copies are compared by: a spent fact, or the marker of an opening, run or union."""


class History:
    """The state of a ledger after a prefix of its records."""

    def __init__(self, header: Record) -> None:
        self.id, self.unit, self.relation, self.budget = _header(header)
        self.spent: list[Entry] = []
        self.events: list[tuple[Event, int]] = []
        self.scopes: list[str] = []
        """The scope of every event."""
        self.assumptions: list[str] = []
        self.not_covered: list[str] = []
        self.runs: list[str] = []
        self.runs_of_opening: list[str] = []
        self.resumed: list[str] = []
        """Runs of earlier openings that this opening continues."""
        self.pools: dict[str, str] = {}
        """Pool names, each with the scope that created it."""
        self.absorbed: list[tuple[str | None, Head]] = []
        self.sealed = False
        self.interruptions = 0
        self.scope = self.id or "unknown"

    @classmethod
    def of(cls, chain: Chain) -> "History":
        """Replay a whole chain; unknown records are rejected."""
        if not chain.runs or "ledger" not in chain.runs[0].record or chain.runs[0].times > 1:
            raise LedgerDamaged("Expected a ledger, but there is no header, or more than one.")
        history = cls(chain.runs[0].record)
        for run in chain.runs[1:]:
            history.replay(run)
        return history

    def replay(self, run: Run) -> None:
        """Replay a run of equal records."""
        match run.record:
            case {"again": count} if len(run.record) == 1:
                self.validated({"again": _count(count) * run.times})()
            case _:
                for _ in range(run.times):
                    self.validated(run.record)()

    def validated(self, record: Record) -> Callable[[], None]:
        """Validate a record and return a function that applies it and cannot fail."""
        if self.sealed and "opened" not in record:
            raise LedgerDamaged(f"Expected nothing after the seal of a ledger, got {record}.")
        try:
            return self._validated(record)
        except LedgerDamaged:
            raise
        except (ValueError, LookupError, TypeError, AttributeError) as problem:
            raise LedgerDamaged(f"Expected a ledger record, got {record}: {problem}") from problem

    def _validated(self, record: Record) -> Callable[[], None]:
        match record:
            case {"spend": fact, "count": count} if len(record) == 2:
                entry = Entry(fact_from_json(fact), _count(count))
                self._check(entry)
                return lambda: self._add(entry, self.scope)
            case {"again": count} if len(record) == 1:
                again = Entry(self.spent[-1].fact, _count(count))
                self._check(again)
                return lambda: self._add(again, self.scope)
            case {"assume": str(sentence)} if len(record) == 1:
                return lambda: self.assumptions.append(sentence)
            case {"not-covered": str(sentence)} if len(record) == 1:
                return lambda: self.not_covered.append(sentence)
            case {"run": str(run)} if len(record) == 1 and run not in self.runs:
                return lambda: self._begin_run(run)
            case {"resumed": str(run)} if len(record) == 1 and run in self.runs:
                return lambda: self._resume_run(run)
            case {"opened": str(name), "copy": bool(copy)} if len(record) == 2:
                return lambda: self._open(name, copy=copy)
            case {
                "absorb": {"id": str() | None as source_id, "head": head},
                "spends": list(spends),
            }:
                source = Head(_count(head["records"]), str(head["sha256"]))
                entries = [Entry(fact_from_json(f), _count(count)) for f, count in spends]
                for entry in entries:
                    self._check(entry)
                return lambda: self._absorb(source_id, source, entries)
            case {"sealed": True} if len(record) == 1:
                return self._seal
            case _:
                raise LedgerDamaged(f"Expected a ledger record, got {record}.")

    def scoped(self, fact: Fact, opening: str | None = None) -> Fact:
        """The fact as this scope records it: a pool name of another scope is made distinct.

        `opening` is the name of the scope if its first record is not written yet. Names that start
        with the id of a run of this opening are unique already.
        """
        begun = self.pools.get(fact.pool) if fact.pool is not None else None
        scope = opening or self.scope
        if begun is None or begun == scope:
            return fact
        assert fact.pool is not None
        if opening is None and any(_belongs(fact.pool, run) for run in self.resumed):
            return fact
        of_this_opening = _opening(begun) == _opening(scope)
        if of_this_opening and any(fact.pool.startswith(run) for run in self.runs_of_opening):
            return fact
        return replace(fact, pool=f"{fact.pool} (of {scope})")

    def missing_in(self, ours: "History") -> list[Entry]:
        """The entries of this history that `ours` lacks.

        Pools of openings that `ours` never had are renamed to stay distinct.
        """
        shared = common(ours.events, self.events) if self.id == ours.id else 0
        known = {ours.id, *ours.scopes} if self.id == ours.id else set()
        missing: list[Entry] = []
        for (event, count), scope in zip(self.events, self.scopes, strict=True):
            skipped = min(count, shared)
            shared -= skipped
            if count == skipped or not isinstance(event, Fact):
                continue
            if event.pool is not None and scope not in known:
                event = replace(event, pool=f"{event.pool} (of {scope})")
            merge(missing, Entry(event, count - skipped))
        return missing

    def _check(self, entry: Entry) -> None:
        if entry.fact.unit != self.unit:
            raise LedgerDamaged(
                f"Expected facts that protect one {self.unit}, got one that protects one "
                f"{entry.fact.unit}."
            )
        before = self.spent[-1] if self.spent else None
        if before and before.fact == entry.fact and before.count + entry.count > MOST_EXECUTIONS:
            raise InvalidInput(f"Expected at most 2^53 executions of one {entry.fact.kind}.")

    def _add(self, entry: Entry, scope: str) -> None:
        if entry.fact.pool is not None:
            self.pools.setdefault(entry.fact.pool, scope)
        merge(self.spent, entry)
        if self.events and self.events[-1][0] == entry.fact and self.scopes[-1] == scope:
            self.events[-1] = (entry.fact, self.events[-1][1] + entry.count)
        else:
            self._mark(entry.fact, entry.count, scope)

    def _mark(self, event: Event, count: int, scope: str) -> None:
        self.events.append((event, count))
        self.scopes.append(scope)

    def _begin_run(self, run: str) -> None:
        self.runs.append(run)
        self.runs_of_opening.append(run)
        # A run id may come from a seed; it is unique only together with its opening.
        self.scope = f"{run} in {_opening(self.scope)}"
        self._mark(f"run {run}", 1, self.scope)

    def _resume_run(self, run: str) -> None:
        self.resumed.append(run)
        self.scope = f"{run} in {_opening(self.scope)}"
        self._mark(f"resumed {run}", 1, self.scope)

    def _open(self, name: str, *, copy: bool) -> None:
        if not self.sealed and not copy:
            self.interruptions += 1
        self.sealed = False
        self.runs_of_opening, self.resumed = [], []
        self.scope = name
        self._mark(f"opened {name}", 1, self.scope)

    def _absorb(self, name: str | None, source: Head, entries: Sequence[Entry]) -> None:
        self.absorbed.append((name, source))
        self._mark(f"absorbed {source.sha256}", 1, self.scope)
        for entry in entries:
            self._add(entry, f"absorbed {source.sha256}")

    def _seal(self) -> None:
        self.sealed = True


def merge(entries: list[Entry], entry: Entry) -> None:
    """Append an entry, merging it with an equal last fact."""
    if entries and entries[-1].fact == entry.fact:
        entries[-1] = Entry(entry.fact, entries[-1].count + entry.count)
    else:
        entries.append(entry)


def common(ours: Sequence[tuple[Event, int]], theirs: Sequence[tuple[Event, int]]) -> int:
    """The length of the common prefix, in single events."""
    shared = 0
    for (our_event, our_count), (their_event, their_count) in zip(ours, theirs, strict=False):
        if our_event != their_event:
            break
        shared += min(our_count, their_count)
        if our_count != their_count:
            break
    return shared


def header(unit: Unit, relation: Relation, budget: Budget | None, name: str) -> Record:
    limits = {"epsilon": budget.epsilon, "delta": budget.delta} if budget else None
    return {"ledger": {"id": name, "unit": str(unit), "relation": str(relation), "budget": limits}}


def _header(record: Record) -> tuple[str | None, Unit, Relation, Budget | None]:
    try:
        fields: Mapping[str, Any] = record["ledger"]
        name, limits = fields.get("id"), fields["budget"]
        if not (name is None or isinstance(name, str)):
            raise LedgerDamaged(f"Expected the id of a ledger, got {name!r}.")
        budget = Budget(**limits) if limits else None
        return name, Unit(fields["unit"]), Relation(fields["relation"]), budget
    except LedgerDamaged:
        raise
    except (ValueError, LookupError, TypeError, AttributeError) as problem:
        raise LedgerDamaged(f"Expected the header of a ledger, but {problem!r}.") from problem


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_EXECUTIONS:
        raise LedgerDamaged(f"Expected a count from 1 to 2^53, got {value!r}.")
    return value


def _belongs(pool: str, run: str) -> bool:
    return pool.startswith(f"{run}: ")


def _opening(scope: str) -> str:
    return scope.rpartition(" in ")[2]
