"""Calibration: the noise, the steps or the replacement probability for a target epsilon.

Every answer is checked with the accountant itself and approached from below: the epsilon it leads
to is at most the target, and within 0.1 % of it where the quantity is continuous.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.recipes.deid import DeidRecipe
from sottovoce.privacy.recipes.federate import FederateRecipe
from sottovoce.privacy.recipes.training import TrainingRecipe

# How close to the target, as a share of it, an answer has to come.
TOLERANCE = 1e-3

_LEAST_NOISE, _MOST_NOISE = 1e-4, 1e7


class NoisyRecipe(Protocol):
    """A dataclass with a noise multiplier, such as a `TrainingRecipe` or a plan of training."""

    @property
    def noise_multiplier(self) -> float: ...

    def guarantee(self) -> Guarantee: ...


R = TypeVar("R", bound=NoisyRecipe)


def noise_multiplier(recipe: R, epsilon: float) -> R:
    """The recipe with the least noise that keeps it within epsilon.

    >>> from sottovoce.privacy.recipes import Method
    >>> recipe = TrainingRecipe(method=Method.DP_SGD, noise_multiplier=1.0, epochs=10,
    ...                         steps_per_epoch=140, sampling_rate=0.007, delta=5e-4)
    >>> calibrated = noise_multiplier(recipe, epsilon=3.0)
    >>> 3.0 * (1 - TOLERANCE) <= calibrated.guarantee().epsilon <= 3.0
    True
    """

    def with_noise(noise: float) -> R:
        return replace(recipe, noise_multiplier=noise)  # type: ignore[type-var]

    def cost(noise: float) -> float:
        return _epsilon(with_noise(noise))

    return with_noise(_least(cost, epsilon, recipe.noise_multiplier))


def count_noise(recipe: FederateRecipe, epsilon: float) -> FederateRecipe:
    """The recipe for federated counts with the smallest noise scale within epsilon."""

    def cost(scale: float) -> float:
        return _epsilon(replace(recipe, scale=scale))

    return replace(recipe, scale=_least(cost, epsilon, recipe.scale))


def replacement(recipe: DeidRecipe, epsilon: float) -> DeidRecipe:
    """The recipe with the smallest p, the one that keeps most of the truth, within epsilon.

    >>> from sottovoce.privacy.recipes import Strategy
    >>> recipe = DeidRecipe(strategy=Strategy.WORD, p=1.0, pi_min=0.25)
    >>> round(replacement(recipe, epsilon=1.0).p, 3)
    0.7
    """
    _validate.not_negative("epsilon", epsilon)
    if _epsilon(replace(recipe, p=1.0)) > epsilon:
        raise InvalidInput(
            f"Expected an epsilon that replacing every private token reaches, got {epsilon:g}: "
            f"{replace(recipe, p=1.0).guarantee()}"
        )
    low, high = 0.0, 1.0  # p = high always keeps within epsilon.
    while high - low > 1e-12:
        middle = (low + high) / 2
        spent = _epsilon(replace(recipe, p=middle))
        low, high = (low, middle) if spent <= epsilon else (middle, high)
        if epsilon * (1 - TOLERANCE / 10) <= spent <= epsilon:
            break
    return replace(recipe, p=high)


def steps(recipe: TrainingRecipe, epsilon: float) -> int:
    """How many steps the recipe's first epoch may have within epsilon; 0 if not even one."""
    one_epoch = replace(recipe, epochs=1)

    def fits(count: int) -> bool:
        return _epsilon(replace(one_epoch, steps_per_epoch=count)) <= epsilon

    if not fits(1):
        return 0
    most = 1
    while fits(2 * most):
        most *= 2
        if most > 2**40:
            raise InvalidInput("Expected steps that cost something, got a recipe free of charge.")
    low, high = most, 2 * most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _epsilon(recipe: NoisyRecipe | FederateRecipe | DeidRecipe) -> float:
    guarantee = recipe.guarantee()
    return guarantee.epsilon if guarantee.holds else math.inf


def _least(cost: Callable[[float], float], target: float, start: float) -> float:
    """The least x, to within the tolerance, at which a falling `cost` is at most `target`.

    Secant steps on the logarithms (epsilon is close to a power of the noise), kept inside a bracket
    by bisection: each evaluation may take a second.
    """
    _validate.positive("epsilon", target)
    enough = _first_enough(cost, target, start)
    too_little = enough / 2
    while cost(too_little) <= target:
        enough, too_little = too_little, too_little / 2
        if too_little < _LEAST_NOISE:
            return enough
    log_low, log_high = math.log(too_little), math.log(enough)
    gap_low, gap_high = _gap(cost(too_little), target), _gap(cost(enough), target)
    aim = -TOLERANCE / 4  # Slightly below the target, so that a good guess is not rejected.
    while gap_high < -TOLERANCE / 2 and log_high - log_low > 1e-12:
        share = (gap_low - aim) / (gap_low - gap_high) if math.isfinite(gap_low) else 0.5
        # Keep off the ends, or a curved function would let the secant crawl.
        guess = log_low + min(max(share, 0.02), 0.98) * (log_high - log_low)
        gap = _gap(cost(math.exp(guess)), target)
        if gap <= 0:
            log_high, gap_high = guess, gap
        else:
            log_low, gap_low = guess, gap
    return math.exp(log_high)


def _first_enough(cost: Callable[[float], float], target: float, start: float) -> float:
    enough = start
    while cost(enough) > target:
        enough *= 2
        if enough > _MOST_NOISE:
            raise InvalidInput(
                f"Expected an epsilon that some amount of noise reaches, got {target:g}."
            )
    return enough


def _gap(spent: float, target: float) -> float:
    return math.log(spent / target) if spent > 0 else -math.inf
