"""From the scores of canaries to a bound: guess the most certain ones, and count correct guesses.

The number of guesses must not depend on which guesses were correct: choosing the best of several is
multiple testing. Either one number is fixed in advance, or several are tried with a Bonferroni
correction.

Dirac canaries use one coordinate each, and Gaussian noise is independent between coordinates. Then
m canaries in one run are equivalent to m runs with one canary, and the counts above a threshold
give Clopper-Pearson bounds: with 20,000 canaries the bound is within a few percent of the true
value. The one-run bounds (`one_run`) need no independence and are weaker.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from sottovoce import _validate
from sottovoce.audit import _checks
from sottovoce.audit._checks import Flags, Scores
from sottovoce.audit.bounds import (
    LowerBound,
    clopper_pearson_bound,
    gaussian_bound,
    one_run_bound,
    one_run_gaussian_bound,
)
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Relation
from sottovoce.privacy.noise import NoiseSource

# Default fraction of canaries that are guessed: near the optimum for Gaussian noise with mu from
# 0.5 to 2, and fixed before any score is seen.
SHARE = 0.1


class Family(StrEnum):
    """The mechanisms that a bound holds for."""

    ANY = "any"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True)
class Guesses:
    """Numbers of canaries, of guessed coins, and of correct guesses."""

    canaries: int
    guesses: int
    correct: int


def one_run_audit(
    scores: ArrayLike,
    included: Flags,
    *,
    delta: float,
    confidence: float = 0.95,
    guesses: int | Sequence[int] | None = None,
    family: Family = Family.ANY,
    relation: Relation = Relation.ADD_OR_REMOVE,
    source: NoiseSource | None = None,
) -> LowerBound:
    """Lower bound on epsilon from the scores of canaries (higher: more likely included).

    `guesses` is one number, or several to try with a Bonferroni correction; by default a tenth of
    the canaries. `relation` states what the coin decided: whether a canary was included, or which
    of two. `source` breaks ties between equal scores.

    >>> rng = np.random.default_rng(0)
    >>> included = rng.random(2000) < 0.5
    >>> scores = 2.0 * included + rng.normal(size=2000)
    >>> bound = one_run_audit(scores, included, delta=1e-5)
    >>> print(bound.evidence, round(bound.epsilon, 2))
    200 of 200 guesses about 2000 canaries were right 4.14
    """
    ranked = _ranked(scores, source or NoiseSource())
    coins = _checks.flags("included", included, ranked.shape)
    _checks.confidence(confidence)
    tried = _numbers_of_guesses(guesses, coins.size)
    each = 1 - (1 - confidence) / len(tried)
    family = _validate.choice("family", family, Family)
    make = one_run_bound if family is Family.ANY else one_run_gaussian_bound
    counts = [guess(ranked, coins, number) for number in tried]
    best = max(
        (
            make(
                canaries=count.canaries,
                guesses=count.guesses,
                correct=count.correct,
                delta=delta,
                confidence=each,
            )
            for count in counts
        ),
        key=lambda bound: bound.epsilon,
    )
    evidence = best.evidence
    if len(tried) > 1:
        evidence += f", the best of {len(tried)} numbers of guesses at equal risk"
    return replace(best, confidence=confidence, evidence=evidence, relation=relation)


def guess(ranked: Scores, included: Flags, guesses: int) -> Guesses:
    """Guess "in" for the highest ranks and "out" for the lowest, half of the guesses each.

    `ranked` has no ties.
    """
    _validate.at_least_one("guesses", guesses)
    _checks.part_of("guesses", guesses, "canaries", included.size)
    order = np.argsort(ranked)
    low = guesses // 2
    high = guesses - low
    correct = included[order[-high:]].sum() + (~included[order[:low]]).sum()
    return Guesses(included.size, guesses, int(correct))


def _ranked(scores: ArrayLike, source: NoiseSource) -> Scores:
    """Ranks of the scores, ties in random order, as the order of canaries may reveal the coins."""
    values = _checks.scores("the canaries' scores", scores)
    ranks = np.empty(values.size)
    ranks[np.lexsort((source.words(values.size), values))] = np.arange(values.size)
    return ranks


def _numbers_of_guesses(guesses: int | Sequence[int] | None, canaries: int) -> Sequence[int]:
    if guesses is None:
        return [max(1, round(SHARE * canaries))]
    tried = [guesses] if isinstance(guesses, int) else list(dict.fromkeys(guesses))
    if not tried:
        raise InvalidInput("Expected at least one number of guesses, got none.")
    return tried


def independent_canaries_audit(
    scores: ArrayLike,
    included: Flags,
    *,
    threshold: float,
    delta: float,
    confidence: float = 0.95,
    family: Family = Family.ANY,
) -> LowerBound:
    """Lower bound on epsilon from independent canaries; a score above `threshold` is called "in".

    Fix the threshold in advance, without the coins: half way between the expected scores of an
    included and an excluded canary. Canaries may have different error rates: their means satisfy
    the same inequality, and a mean of independent trials with different rates varies less than
    Clopper-Pearson allows.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> included = rng.random(20_000) < 0.5
    >>> bound = independent_canaries_audit(included + rng.normal(size=20_000), included,
    ...                                    threshold=0.5, delta=1e-5, family=Family.GAUSSIAN)
    >>> round(bound.mu, 2)                                    # the true value is 1
    0.94
    """
    found = _checks.scores("the canaries' scores", scores)
    coins = _checks.flags("included", included, found.shape)
    if math.isnan(threshold):
        raise InvalidInput("Expected a threshold, got NaN.")
    called = found > threshold
    family = _validate.choice("family", family, Family)
    make = clopper_pearson_bound if family is Family.ANY else gaussian_bound
    return make(
        true_positives=int((called & coins).sum()),
        members=int(coins.sum()),
        false_positives=int((called & ~coins).sum()),
        non_members=int((~coins).sum()),
        delta=delta,
        confidence=confidence,
    )
