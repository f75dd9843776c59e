"""What the records of a ledger say, read one after the other.

| record | meaning |
|---|---|
| `ledger` | the header: an id, the unit, the relation, the budget |
| `opened` | a new opening: from here on somebody else may be writing |
| `run` | a training (or the like) that spends here, by its id |
| `spend`, `again` | a fact that happened `count` times; the fact before, again |
| `absorb` | what another copy of this ledger had spent, and this one had not |
| `assume`, `not-covered` | notes for the guarantee |
| `sealed` | closed: nothing was left out up to here |

A *scope* is an opening, or a run within it. What one scope calls a pool is not what another one
does: the batches of two epochs called `epoch 0` are not disjoint.
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
"""Above this, floating-point accountants can no longer count one by one."""

Event = Fact | str
"""What tells copies of a ledger apart: a spent fact, or the mark of an opening, run or union."""


class History:
    """The state of a ledger after some of its records."""

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
        self.pools: dict[str, str] = {}
        """Names of pools, each with the scope that began it."""
        self.absorbed: list[tuple[str | None, Head]] = []
        self.sealed = False
        self.interruptions = 0
        self.scope = self.id or "unknown"

    @classmethod
    def of(cls, chain: Chain) -> "History":
        """Read a whole chain; what is no record of a ledger is refused."""
        if not chain.runs or "ledger" not in chain.runs[0].record or chain.runs[0].times > 1:
            raise LedgerDamaged("Expected a ledger, but there is no header, or more than one.")
        history = cls(chain.runs[0].record)
        for run in chain.runs[1:]:
            history.take(run)
        return history

    def take(self, run: Run) -> None:
        """Read equal records in a row."""
        match run.record:
            case {"again": count} if len(run.record) == 1:
                self.prepared({"again": _count(count) * run.times})()
            case _:
                for _ in range(run.times):
                    self.prepared(run.record)()

    def prepared(self, record: Record) -> Callable[[], None]:
        """Check a record; the function that takes it into account cannot fail."""
        if self.sealed and "opened" not in record:
            raise LedgerDamaged(f"Expected nothing after the seal of a ledger, got {record}.")
        try:
            return self._prepared(record)
        except LedgerDamaged:
            raise
        except (ValueError, LookupError, TypeError, AttributeError) as problem:
            raise LedgerDamaged(f"Expected a ledger record, got {record}: {problem}") from problem

    def _prepared(self, record: Record) -> Callable[[], None]:
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
        """The fact as this scope may spend it: a pool that another scope began is not its own.

        `opening` is the name of the scope if its first record is still to be written. Names that
        begin with the id of a run of this opening say themselves whose they are.
        """
        begun = self.pools.get(fact.pool) if fact.pool is not None else None
        scope = opening or self.scope
        if begun is None or begun == scope:
            return fact
        assert fact.pool is not None
        of_this_opening = _opening(begun) == _opening(scope)
        if of_this_opening and any(fact.pool.startswith(run) for run in self.runs_of_opening):
            return fact
        return replace(fact, pool=f"{fact.pool} (of {scope})")

    def unknown_to(self, ours: "History") -> list[Entry]:
        """What was spent here and not there, for `ours` to pay too.

        Pools of openings that `ours` never had get names of their own.
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
        # The id of a run can come from a seed, so only with its opening is it one of a kind.
        self.scope = f"{run} in {_opening(self.scope)}"
        self._mark(f"run {run}", 1, self.scope)

    def _open(self, name: str, *, copy: bool) -> None:
        if not self.sealed and not copy:
            self.interruptions += 1
        self.sealed = False
        self.runs_of_opening = []
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
    """Append an entry; equal facts in a row are one entry."""
    if entries and entries[-1].fact == entry.fact:
        entries[-1] = Entry(entry.fact, entries[-1].count + entry.count)
    else:
        entries.append(entry)


def common(ours: Sequence[tuple[Event, int]], theirs: Sequence[tuple[Event, int]]) -> int:
    """How many of their events, one by one, are ours too, from the beginning on."""
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


def _opening(scope: str) -> str:
    return scope.rpartition(" in ")[2]
