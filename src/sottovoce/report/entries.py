"""The entries of a ledger in words: mechanism, count and parameters.

Consecutive entries that differ only in their parameters (decaying noise, utterances with different
private values) become one row: 1,400 rows would be unreadable.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sottovoce.privacy.accounting import Entry
from sottovoce.privacy.facts import (
    BoundedRelease,
    Contribution,
    Fact,
    MetricRelease,
    NoisySum,
    NoisyVector,
    ReplacedTokens,
    Sampling,
    Unprotected,
)
from sottovoce.privacy.guarantee import Relation, rounded_up
from sottovoce.privacy.ledger import Ledger
from sottovoce.report.numbers import percent, short

# Longer sequences of entries of one kind become one row.
_MAX_SEPARATE = 3


@dataclass(frozen=True)
class Row:
    """One row of the table: `times` executions of `entries` distinct facts."""

    times: int
    entries: int
    what: str
    details: tuple[str, ...] = ()


def rows(ledger: Ledger) -> list[Row]:
    """The ledger as a table.

    >>> from sottovoce.privacy.guarantee import Unit
    >>> ledger = Ledger(unit=Unit.EXAMPLE, relation=Relation.ADD_OR_REMOVE)
    >>> ledger.spend(NoisySum(unit=Unit.EXAMPLE, clip_norm=1, noise_stds=(0.8,),
    ...                       sampling_rate=0.01), 200)
    >>> rows(ledger)[0].times, rows(ledger)[0].what
    (200, 'Gaussian noise on a sum of clipped contributions: noise multiplier 0.8')
    """
    return list(_rows(ledger.entries, ledger.relation))


def _rows(entries: Sequence[Entry], relation: Relation) -> Iterator[Row]:
    for _, group in itertools.groupby(entries, key=lambda entry: (entry.fact.kind, _pool(entry))):
        together = list(group)
        if len(together) <= _MAX_SEPARATE:
            for entry in together:
                yield Row(entry.count, 1, *_described([entry.fact], relation))
        else:
            times = sum(entry.count for entry in together)
            facts = [entry.fact for entry in together]
            yield Row(times, len(together), *_described(facts, relation))


def _pool(entry: Entry) -> str | None:
    # Each shuffled epoch is its own pool; group their steps on the page anyway.
    return None if isinstance(entry.fact, NoisySum) else entry.fact.pool


def _described(facts: Sequence[Fact], relation: Relation) -> tuple[str, tuple[str, ...]]:
    first = facts[0]
    details = []
    match first:
        case NoisySum():
            sums = [fact for fact in facts if isinstance(fact, NoisySum)]
            strength = _range([fact.noise_multiplier(relation) for fact in sums])
            what = f"Gaussian noise on a sum of clipped contributions: noise multiplier {strength}"
            details = list(_details_of_sum(first))
        case NoisyVector():
            vectors = [fact for fact in facts if isinstance(fact, NoisyVector)]
            what = (
                f"{str(first.noise).replace('-', ' ').capitalize()} noise of scale "
                f"{_range([each.scale for each in vectors])} on counts that one {first.unit} can "
                f"change by {_range([each.sensitivity for each in vectors])}"
            )
            if first.sampling_rate is not None and first.sampling_rate < 1:
                details.append(f"clients sampled with probability {first.sampling_rate:g}")
        case BoundedRelease() | MetricRelease():
            known = [f for f in facts if isinstance(f, BoundedRelease | MetricRelease)]
            names = ", ".join(dict.fromkeys(each.mechanism for each in known))
            distance = " for every unit of distance" if isinstance(first, MetricRelease) else ""
            what = (
                f"{names}: epsilon {_range([each.epsilon for each in known], rounded_up)}{distance}"
            )
        case ReplacedTokens():
            tokens = [fact for fact in facts if isinstance(fact, ReplacedTokens)]
            count = _range([each.tokens for each in tokens])
            what = (
                f"{count} private {'word' if count == '1' else 'words'} replaced with probability "
                f"{_range([each.replace_probability for each in tokens])} by a surrogate from "
                f"{first.surrogates.replace('-', ' ')}"
            )
        case Unprotected():
            reasons = [fact.reason for fact in facts if isinstance(fact, Unprotected)]
            what = "Released without noise: " + "; ".join(dict.fromkeys(reasons))
        case _ if first.kind == "replaced-values":
            what, details = _values(facts)
        case _:
            what = first.kind
    if first.pool is not None and not isinstance(first, NoisySum):
        details.append(f"only the costliest of the pool “{first.pool}” counts")
    if any(fact.seeded for fact in facts):
        details.append("seeded")
    return what, tuple(details)


def _details_of_sum(fact: NoisySum) -> Iterator[str]:
    if fact.sampling is Sampling.POISSON and fact.sampling_rate is not None:
        yield f"each {fact.unit} sampled with probability {fact.sampling_rate:g}"
    else:
        yield f"sampling: {fact.sampling}"
    yield f"clipped to norm {fact.clip_norm:g}" + (" per layer" if fact.clipped_per_layer else "")
    if fact.contribution is Contribution.MIXED:
        yield "contributions are means over several examples"
    if fact.workers > 1:
        yield f"{fact.workers} workers"
    if len(fact.scales) > 1:
        yield f"{len(fact.scales)} layers, scales from {fact.scale_source}"


def _values(facts: Sequence[Fact]) -> tuple[str, list[str]]:
    """Replaced values; accessed by field name, because this package does not import deid."""
    largest = max(facts, key=lambda fact: sum(getattr(fact, "counts", ())))
    types, counts = getattr(largest, "types", ()), getattr(largest, "counts", ())
    chances = getattr(largest, "replace_probabilities", ())
    epsilons = getattr(largest, "epsilons", ())
    parts = []
    for kind, count, chance, epsilon in zip(types, counts, chances, epsilons, strict=True):
        if count:
            how = (
                f"epsilon {rounded_up(epsilon)}" if epsilon >= 0 else f"replaced {percent(chance)}"
            )
            parts.append(f"{count:,} {kind} ({how})")
    which = f"largest of {len(facts):,} combinations" if len(facts) > 1 else "combination"
    values = ", ".join(parts) or "none with a cost"
    return f"Private values of one {facts[0].unit} replaced; {which}: {values}", []


def _range(values: Sequence[float], shown: Callable[[float], str] = short) -> str:
    low, high = shown(min(values)), shown(max(values))
    return low if low == high else f"{low} to {high}"
