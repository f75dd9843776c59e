"""Merging ledgers: the workers of one training, or all releases about the same people.

A worker knows only its own share of the noise: N(0, s_w^2). Variances of independent shares add up,
so the sum has the variance S^2 = sum_w s_w^2, whatever the workers were configured to add. A
release that every worker recorded (one by the server, for example) happened once. The entries of
ledgers of different trainings all count.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sottovoce.errors import CannotAccount, InvalidInput
from sottovoce.privacy.accounting import Entry
from sottovoce.privacy.facts import Fact, NoisySum, Unprotected
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.ledgers.history import merge

NO_RUN_IDS = "the ledgers of all workers belong to the same training (they have no run ids)"


def merge_workers(ledgers: Sequence[Ledger]) -> Ledger:
    """One ledger for the joint releases of all workers of one training.

    A step that some workers could not record because of a crash was never summed. It is counted
    anyway, as if each missing worker had added the smallest share of those present.
    """
    _check_one_training(ledgers)
    first = ledgers[0]
    spent: list[Entry] = []
    pending = [
        [entry for entry in reversed(ledger.entries) if not isinstance(entry.fact, Unprotected)]
        for ledger in ledgers
    ]
    unfinished = 0
    while any(pending):
        present = [runs[-1] for runs in pending if runs]
        count = min(run.count for run in present)
        if len(present) < len(ledgers):
            unfinished += count
        merge(spent, Entry(_merged_step([run.fact for run in present], len(ledgers)), count))
        for runs in pending:
            if runs:
                run = runs.pop()
                if run.count > count:
                    runs.append(Entry(run.fact, run.count - count))
    # A release without noise by one worker voids the guarantee of all.
    voids = {
        entry.fact: entry
        for ledger in ledgers
        for entry in ledger.entries
        if isinstance(entry.fact, Unprotected)
    }
    assumptions = [sentence for ledger in ledgers for sentence in ledger.assumptions]
    if len(ledgers) > 1 and not any(ledger.runs for ledger in ledgers):
        assumptions.append(NO_RUN_IDS)
    if unfinished:
        assumptions.append(
            f"{unfinished} interrupted steps, recorded by some workers only, are counted as spent"
        )
    return Ledger.of(
        [*spent, *voids.values()],
        unit=first.unit,
        relation=first.relation,
        budget=first.budget,
        assumptions=assumptions,
        not_covered=[sentence for ledger in ledgers for sentence in ledger.not_covered],
    )


@dataclass(frozen=True)
class Composition:
    """The composition of several ledgers, and how each of them was counted."""

    ledger: Ledger
    how: tuple[str, ...]


def compose(ledgers: Iterable[tuple[str, Ledger]]) -> Composition:
    """Compose named ledgers about the same people.

    Copies of one ledger count once; if they diverged, every branch counts. Shares of the workers of
    one training are merged first.
    """
    named = list(ledgers)
    if not named:
        raise InvalidInput("Expected at least one ledger, got none.")
    _check_compatible([ledger for _, ledger in named])
    how: list[str] = []
    first = named[0][1]
    parts = _merge_worker_shares(without_copies(named, how), how)
    entries: list[Entry] = []
    for number, (name, ledger) in enumerate(parts):
        how.append(f"{name}: {_executions(ledger)} executions are counted")
        for entry in ledger.entries:
            merge(entries, Entry(_with_pool_of(entry.fact, f"ledger {number}"), entry.count))
    whole = Ledger.of(
        entries,
        unit=first.unit,
        relation=first.relation,
        assumptions=[
            *(sentence for _, ledger in parts for sentence in ledger.assumptions),
            f"everything released about the same people is in these ledgers: "
            f"{', '.join(name for name, _ in named)}",
        ],
        not_covered=[sentence for _, ledger in parts for sentence in ledger.not_covered],
    )
    return Composition(whole, tuple(how))


def without_copies(named: Sequence[tuple[str, Ledger]], how: list[str]) -> list[tuple[str, Ledger]]:
    """The ledgers with copies counted once; `how` is told what became of each."""
    kept: list[tuple[str, Ledger]] = []
    places: dict[str, int] = {}
    for name, ledger in named:
        if not ledger.has_own_id:
            how.append(f"{name}: it has no unique id, so it is counted even if it is a copy")
            kept.append((name, ledger))
            continue
        assert ledger.id is not None
        if ledger.id not in places:
            places[ledger.id] = len(kept)
            kept.append((name, ledger))
            continue
        other_name, other = kept[places[ledger.id]]
        if other.includes(ledger):
            how.append(f"{name} is a copy of {other_name}: counted once")
        elif ledger.includes(other):
            how.append(f"{other_name} is an older copy of {name}: counted once")
            kept[places[ledger.id]] = (name, ledger)
        else:
            how.append(
                f"{name} and {other_name} are copies of one ledger that diverged: both branches "
                "are counted"
            )
            both = Ledger.from_json(other.to_json()).union(ledger)
            kept[places[ledger.id]] = (f"{other_name} and {name}", both)
    return kept


def _merge_worker_shares(
    parts: Sequence[tuple[str, Ledger]], how: list[str]
) -> list[tuple[str, Ledger]]:
    joined: list[tuple[str, Ledger]] = []
    teams: dict[tuple[str, ...], list[tuple[str, Ledger]]] = {}
    for name, ledger in parts:
        if _ranks(ledger):
            teams.setdefault(ledger.runs, []).append((name, ledger))
        else:
            joined.append((name, ledger))
    for team in teams.values():
        names = ", ".join(name for name, _ in team)
        how.append(f"{names}: shares of the workers of one training")
        joined.append((names, merge_workers([ledger for _, ledger in team])))
    return joined


def _with_pool_of(fact: Fact, source: str) -> Fact:
    """Keep pools of different ledgers distinct, even with equal names."""
    return fact if fact.pool is None else replace(fact, pool=f"{source}: {fact.pool}")


def _executions(ledger: Ledger) -> int:
    return sum(entry.count for entry in ledger.entries)


def _ranks(ledger: Ledger) -> set[int]:
    return {
        entry.fact.rank
        for entry in ledger.entries
        if isinstance(entry.fact, NoisySum) and entry.fact.rank is not None
    }


def _check_compatible(ledgers: Sequence[Ledger]) -> None:
    first = ledgers[0]
    for ledger in ledgers:
        if (ledger.unit, ledger.relation) != (first.unit, first.relation):
            raise CannotAccount(
                "Expected ledgers with the same unit and relation, got one that protects one "
                f"{first.unit} under {first.relation} and one that protects one {ledger.unit} "
                f"under {ledger.relation}."
            )


def _check_one_training(ledgers: Sequence[Ledger]) -> None:
    if not ledgers:
        raise InvalidInput("Expected the ledgers of all workers, got none.")
    _check_compatible(ledgers)
    first = ledgers[0]
    if any(ledger.budget != first.budget for ledger in ledgers):
        raise CannotAccount(
            "Expected the same budget in the ledgers of all workers, got different ones."
        )
    # A worker may have crashed before it recorded a run, or lost its ledger of an earlier run. But
    # one worker must have all runs, so that no step is missing.
    longest = max((ledger.runs for ledger in ledgers), key=len)
    if not all(
        _is_subsequence(ledger.runs, longest) and (ledger.runs or not (longest and ledger.entries))
        for ledger in ledgers
    ):
        raise CannotAccount(
            "Expected the ledgers of the workers of one training, got ledgers of different runs: "
            "releases of different trainings compose; use sottovoce ledger merge."
        )
    ids = [ledger.id for ledger in ledgers if ledger.has_own_id]
    if len(set(ids)) < len(ids):
        raise CannotAccount("Expected one ledger per worker, got the same one twice.")
    ranks: set[int] = set()
    for ledger in ledgers:
        own = _ranks(ledger)
        if len(own) > 1 or own & ranks:
            raise CannotAccount(
                "Expected shares of one step from workers of different ranks, got "
                f"{'several ranks in one ledger' if len(own) > 1 else 'one rank twice'}."
            )
        ranks |= own
    if ranks and max(ranks) >= len(ledgers):
        raise CannotAccount(
            f"Expected the ledgers of ranks 0 to {len(ledgers) - 1}, got rank {max(ranks)}."
        )


def _is_subsequence(runs: Sequence[str], of: Sequence[str]) -> bool:
    """Whether `runs` is a subsequence of the others."""
    rest = iter(of)
    return all(run in rest for run in runs)


def _merged_step(facts: Sequence[Fact], workers: int) -> Fact:
    first = facts[0]
    if not isinstance(first, NoisySum) or first.rank is None:
        if any(fact != first for fact in facts):
            raise CannotAccount(
                "Expected all workers to record the same release, got different ones."
            )
        return first
    shares = [fact for fact in facts if isinstance(fact, NoisySum)]
    ranks = {fact.rank for fact in shares}
    common = {replace(fact, rank=None, noise_stds=first.noise_stds) for fact in shares}
    if len(shares) < len(facts) or len(common) > 1 or len(ranks) < len(facts):
        raise CannotAccount(
            "Expected shares of one step from workers of different ranks, got different steps."
        )
    if first.workers != workers:
        raise CannotAccount(f"Expected the ledgers of all {first.workers} workers, got {workers}.")
    missing = workers - len(facts)
    stds = tuple(
        math.hypot(*shares_of_layer, *([min(shares_of_layer)] * missing))
        for shares_of_layer in zip(*(fact.noise_stds for fact in shares), strict=True)
    )
    return replace(first, rank=None, noise_stds=stds)
