"""From executed facts to a guarantee: their privacy losses and the tightest valid accountant.

Noise multipliers are computed from facts, never entered by hand. Facts that cannot be accounted
lead to the verdict "no-guarantee" with reasons; facts that cannot be combined (different units,
metric and plain epsilon) are rejected.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sottovoce import _validate
from sottovoce.errors import CannotAccount, InvalidInput
from sottovoce.privacy.accountants import gaussian, pld, rdp, tokens
from sottovoce.privacy.accountants.losses import (
    ApproximateLoss,
    ConcentratedLoss,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PoissonGaussianLoss,
    PureLoss,
    TokenLoss,
    dominates,
    of_group,
)
from sottovoce.privacy.facts import Fact, Unprotected
from sottovoce.privacy.guarantee import (
    DELTA_SHARE,
    Guarantee,
    Notion,
    Relation,
    Unit,
    Verdict,
    largest_delta,
)

# If the members of pools cannot be ordered, all combinations are evaluated, up to this many.
_MOST_COMBINATIONS = 10_000

# Larger counts are not exact as floating-point numbers.
LARGEST_COUNT = 2**53
# Smaller probabilities underflow.
SMALLEST_DELTA = 1e-200

Losses = Sequence[tuple[Loss, int]]


@dataclass(frozen=True)
class Entry:
    """A fact and the number of times it was executed."""

    fact: Fact
    count: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.fact, Fact):
            raise InvalidInput(f"Expected an executed fact, got {self.fact!r}.")
        count = _validate.at_least_one("count", _validate.whole("count", self.count))
        _validate.between("count", count, 1, LARGEST_COUNT)
        object.__setattr__(self, "count", count)


def account(
    entries: Iterable[Entry],
    *,
    unit: Unit,
    relation: Relation,
    delta: float,
    population: int | None = None,
    assumptions: Sequence[str] = (),
    not_covered: Sequence[str] = (),
) -> Guarantee:
    """The guarantee that all `entries` together give to one unit.

    `population` is the public number of units: a delta above 0.1 / population gives no guarantee.
    Without it, the guarantee lists as an assumption the largest population for which its delta is
    small enough.

    >>> from sottovoce.privacy.facts import NoisySum
    >>> step = NoisySum(unit=Unit.EXAMPLE, clip_norm=1, noise_stds=(1.0,), sampling_rate=0.007)
    >>> g = account([Entry(step, 1400)], unit=Unit.EXAMPLE, relation=Relation.ADD_OR_REMOVE,
    ...             delta=5e-4)
    >>> g.verdict.value, round(g.epsilon, 3), g.accountant
    ('holds', 1.011, 'PLD of the Poisson-sampled Gaussian')
    """
    unit = _validate.choice("unit", unit, Unit)
    entries = checked_entries(entries)
    for entry in entries:
        if entry.fact.unit is not unit:
            raise CannotAccount(
                f"Expected every fact to protect one {unit}, got one of the kind "
                f"{entry.fact.kind} that protects one {entry.fact.unit}; keep one ledger for each "
                "privacy unit."
            )
    return derive(
        entries,
        unit=unit,
        relation=relation,
        delta=delta,
        population=population,
        assumptions=assumptions,
        not_covered=not_covered,
    )


def derive(
    entries: Sequence[Entry],
    *,
    unit: Unit,
    relation: Relation,
    delta: float,
    population: int | None,
    assumptions: Sequence[str],
    not_covered: Sequence[str],
    group_size: int | Sequence[int] = 1,
) -> Guarantee:
    """The guarantee to a unit that consists of `group_size` units of the facts.

    A sequence gives one size for every entry. Call `account` or `groups.group_guarantee` instead:
    they check that unit and facts match.
    """
    relation = _validate.choice("relation", relation, Relation)
    delta = checked_delta(delta)
    facts = [entry.fact for entry in entries]
    sizes = [group_size] * len(entries) if isinstance(group_size, int) else group_size
    notion = _common_notion(facts)
    small = delta_assumptions(delta, unit, population)
    stated = _once(
        itertools.chain(*(fact.assumptions(relation) for fact in facts), assumptions, small)
    )
    objections = _once(
        itertools.chain(
            *(fact.objections(relation) for fact in facts),
            delta_objections(delta, unit, population),
        )
    )
    epsilon, accountant = math.inf, "none"
    if not objections:
        # A metric epsilon is per unit of distance. Advanced composition at delta > 0 would hold at
        # one distance only (a loss d times as large costs more than d times as much).
        spendable = 0.0 if notion is Notion.METRIC_DP else delta
        epsilon, accountant = _worst_combination(entries, spendable, relation, sizes)
        if math.isinf(epsilon):
            objections = _why_infinite(entries, delta, relation, sizes)
    return Guarantee(
        epsilon=math.inf if objections else epsilon,
        delta=delta,
        unit=unit,
        relation=relation,
        notion=notion,
        accountant=accountant,
        verdict=Verdict.NO_GUARANTEE if objections else Verdict.HOLDS,
        reasons=objections,
        assumptions=stated,
        not_covered=_once(not_covered),
    )


def checked_delta(delta: float) -> float:
    """Reject a delta that is no probability, or positive but too small to compute with."""
    delta = _validate.number("delta", delta)
    if 0 < _validate.delta(delta) < SMALLEST_DELTA:
        raise InvalidInput(f"Expected a delta of 0 or of at least 1e-200, got {delta:g}.")
    return delta


def delta_objections(delta: float, unit: Unit, population: int | None) -> list[str]:
    """Why this delta is too large for a population of this size; empty if it is not."""
    largest = largest_delta(1 if population is None else population)
    if delta <= largest:
        return []
    size = "one" if population is None else f"{population}"
    return [
        f"delta {delta:g} is above {largest:.3g}, the limit for a population of {size} (0.1 over "
        f"the population): such a delta would allow publishing the data of one {unit} unchanged"
    ]


def delta_assumptions(delta: float, unit: Unit, population: int | None) -> list[str]:
    """The largest population for which delta is small enough, if none was given."""
    if population is not None or not 0 < delta <= largest_delta(1):
        return []
    most = math.floor(DELTA_SHARE / delta * (1 + 1e-12))
    return [
        f"there are at most {most} {unit}s, so that delta is at most 0.1 divided by their number"
    ]


def several_runs(runs: Iterable[Iterable[Entry]]) -> list[Entry]:
    """The entries of several runs on data of the same people, for joint accounting.

    A pool is disjoint only within its run: two runs both have a pool "epoch 0", and their batches
    overlap. So pools are renamed per run.
    """
    return [
        Entry(replace(entry.fact, pool=f"run {number}, {entry.fact.pool}"), entry.count)
        if entry.fact.pool is not None
        else entry
        for number, run in enumerate(runs, 1)
        for entry in checked_entries(run)
    ]


def checked_entries(entries: Iterable[Entry]) -> list[Entry]:
    entries = list(entries)
    if not all(isinstance(entry, Entry) for entry in entries):
        raise InvalidInput("Expected ledger entries, each a fact with a count.")
    return entries


def tightest(losses: Losses, delta: float, relation: Relation) -> tuple[float, str]:
    """The smallest epsilon of the valid accountants for these losses, and the accountant's name."""
    stated = [(loss, n) for loss, n in losses if isinstance(loss, ApproximateLoss)]
    if stated:
        return _beside_stated(stated, losses, delta, relation)
    kinds = {type(loss) for loss, _ in losses}
    if not losses:
        return 0.0, "nothing released"
    if kinds <= {GaussianLoss}:
        mu = gaussian.compose(
            loss.mu * math.sqrt(n) for loss, n in losses if isinstance(loss, GaussianLoss)
        )
        return gaussian.epsilon_of(mu, delta), "analytic Gaussian"
    exact = [(loss, n) for loss, n in losses if isinstance(loss, TokenLoss)]
    if kinds <= {TokenLoss} and delta > 0 and tokens.are_few(exact):
        return tokens.epsilon_of(exact, delta), "exact token composition"
    if delta == 0:
        return _pure_sum(losses), "pure composition"
    if ConcentratedLoss in kinds:
        return rdp.epsilon_of(losses, delta, relation), "RDP"
    sampled_only = kinds <= {PoissonGaussianLoss}
    composed = pld.epsilon_of(losses, delta, relation)
    if not pld.is_precise(losses, delta):
        return min(
            (composed, "analytic Gaussian, without amplification"),
            (rdp.epsilon_of(losses, delta, relation), "RDP, because delta is very small"),
            (_pure_sum(losses), "pure composition"),
        )
    if composed > pld.LARGEST_EPSILON:
        return composed, "analytic Gaussian, without amplification"
    name = "PLD of the Poisson-sampled Gaussian" if sampled_only else "PLD"
    pure = _pure_sum(losses)
    return (pure, "pure composition") if pure < composed else (composed, name)


def _worst_combination(
    entries: Sequence[Entry], delta: float, relation: Relation, sizes: Sequence[int]
) -> tuple[float, str]:
    """Count one member of each pool: the worst combination where members cannot be ordered."""
    return max(
        tightest(losses, delta, relation) for losses in _combinations(entries, relation, sizes)
    )


def delta_curve(
    entries: Sequence[Entry],
    epsilons: Sequence[float],
    *,
    relation: Relation,
    group_size: int | Sequence[int] = 1,
) -> list[float]:
    """The smallest known delta at each epsilon, from the composed loss distributions.

    Releases that are known only by one epsilon and delta have no such curve; they raise
    `CannotAccount`.
    """
    entries = checked_entries(entries)
    sizes = [group_size] * len(entries) if isinstance(group_size, int) else group_size
    if any(entry.fact.objections(relation) for entry in entries):
        raise CannotAccount("Expected releases with a guarantee, got one without.")
    curves = [
        pld.deltas_of(losses, epsilons, relation)
        for losses in _combinations(entries, relation, sizes)
    ]
    return [max(point) for point in zip(*curves, strict=True)]


def _combinations(
    entries: Sequence[Entry], relation: Relation, sizes: Sequence[int]
) -> Iterator[Losses]:
    """The losses of every combination of one member of each pool that may be the worst."""
    certain: list[tuple[Loss, int]] = []
    pools: dict[str, list[Losses]] = defaultdict(list)
    undivided = _pools_of_one_kind(entries, relation)
    for entry, size in zip(entries, sizes, strict=True):
        losses = [
            (loss, n * times)
            for one, n in entry.fact.losses(relation)
            for loss, times in [of_group(one, size)]
        ]
        # A group may be spread over the members of a pool. If all have one kind of loss, the worst
        # case is the whole group in one member; otherwise every member counts.
        pool = entry.fact.pool
        if pool is None or (size > 1 and pool not in undivided):
            certain += [(loss, n * entry.count) for loss, n in losses]
        else:
            pools[pool].append(losses)
    choices = [_undominated(members) for members in pools.values()]
    if math.prod(len(choice) for choice in choices) > _MOST_COMBINATIONS:
        raise CannotAccount(
            f"Expected at most {_MOST_COMBINATIONS} combinations of different releases in pools, "
            "got more: use the same mechanism for all members of a pool."
        )
    for picked in itertools.product(*choices):
        yield _merged(itertools.chain(certain, *picked))


def _pools_of_one_kind(entries: Sequence[Entry], relation: Relation) -> set[str]:
    """The pools whose members cause one loss each, all of the same kind."""
    kinds: dict[str, set[tuple[type[Loss], ...]]] = defaultdict(set)
    for entry in entries:
        if entry.fact.pool is not None:
            losses = entry.fact.losses(relation)
            kinds[entry.fact.pool].add(tuple(type(loss) for loss, _ in losses))
    return {pool for pool, found in kinds.items() if len(found) == 1 and len(*found) <= 1}


def _undominated(members: Sequence[Losses]) -> list[Losses]:
    kept: list[Losses] = []
    for member in members:
        if any(_covers(other, member) for other in kept):
            continue
        kept = [other for other in kept if not _covers(member, other)] + [member]
    return kept


def _covers(worse: Losses, other: Losses) -> bool:
    return len(worse) == len(other) and all(
        n >= m and dominates(a, b) for (a, n), (b, m) in zip(worse, other, strict=True)
    )


def _beside_stated(
    stated: Sequence[tuple[ApproximateLoss, int]], losses: Losses, delta: float, relation: Relation
) -> tuple[float, str]:
    """Basic composition: add the (epsilon, delta) of mechanisms known only by them to the rest."""
    spent_epsilon = sum(loss.epsilon * count for loss, count in stated)
    spent_delta = sum(loss.delta * count for loss, count in stated)
    if spent_delta > delta:
        return math.inf, "none"
    rest = [(loss, count) for loss, count in losses if not isinstance(loss, ApproximateLoss)]
    epsilon, name = tightest(rest, delta - spent_delta, relation)
    return epsilon + spent_epsilon, f"basic composition with {name}" if rest else "as stated"


def _pure_sum(losses: Losses) -> float:
    total = 0.0
    for loss, count in losses:
        match loss:
            case LaplaceLoss(epsilon=epsilon) | PureLoss(epsilon=epsilon):
                total += epsilon * count
            case TokenLoss():
                total += tokens.pure_epsilon([(loss, count)])
            case _:
                return math.inf
    return total


def _why_infinite(
    entries: Sequence[Entry], delta: float, relation: Relation, sizes: Sequence[int]
) -> tuple[str, ...]:
    if delta == 0 and any(
        isinstance(loss, GaussianLoss | PoissonGaussianLoss | ConcentratedLoss)
        for entry in entries
        for loss, _ in entry.fact.losses(relation)
    ):
        return ("Gaussian noise gives no pure epsilon; use a delta above 0",)
    unbounded = [
        entry.fact
        for entry, size in zip(entries, sizes, strict=True)
        if math.isinf(_worst_combination([entry], delta, relation, [size])[0])
    ]
    return _once(fact.why_infinite() for fact in unbounded) or (
        f"at delta {delta:g} the releases together have no finite epsilon",
    )


def _common_notion(facts: Sequence[Fact]) -> Notion:
    notions = {fact.notion for fact in facts if not isinstance(fact, Unprotected)}
    if len(notions) > 1:
        raise CannotAccount(
            "Expected plain and metric differential privacy in separate ledgers, got both: a "
            " metric epsilon is per unit of distance and cannot be added to a plain one."
        )
    return notions.pop() if notions else Notion.DP


def _merged(losses: Iterable[tuple[Loss, int]]) -> Losses:
    counts: dict[Loss, int] = defaultdict(int)
    for loss, count in losses:
        counts[loss] += count
    return list(counts.items())


def _once(sentences: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sentences))
