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
# Counting the steps of a larger epsilon would take minutes, and protect nobody.
_MOST_EPSILON = 20.0
# Until there is a bracket, as if epsilon fell like 1 / noise: a little farther, to get across, but
# not out of sight, because far from the target it falls faster.
_STRETCH, _FARTHEST = 1.2, 3.0


class _HasGuarantee(Protocol):
    def guarantee(self) -> Guarantee: ...


class NoisyRecipe(_HasGuarantee, Protocol):
    """A dataclass with a noise multiplier, such as a `TrainingRecipe` or a plan of training."""

    @property
    def noise_multiplier(self) -> float: ...


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

    return with_noise(_least(with_noise, epsilon, recipe.noise_multiplier))


def count_noise(recipe: FederateRecipe, epsilon: float) -> FederateRecipe:
    """The recipe for federated counts with the smallest noise scale within epsilon."""

    def with_scale(scale: float) -> FederateRecipe:
        return replace(recipe, scale=scale)

    return with_scale(_least(with_scale, epsilon, recipe.scale))


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
    _validate.between("epsilon", epsilon, 0, _MOST_EPSILON)
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


def _epsilon(recipe: _HasGuarantee) -> float:
    guarantee = recipe.guarantee()
    return guarantee.epsilon if guarantee.holds else math.inf


def _least(recipe_at: Callable[[float], _HasGuarantee], target: float, start: float) -> float:
    """The least noise, to within the tolerance, at which the recipe is within `target`.

    Secant steps on the logarithms (epsilon is close to a power of the noise), kept inside a bracket
    as soon as there is one: each evaluation may take a second.
    """
    _validate.positive("epsilon", target)
    bracket = _Bracket()
    guess = math.log(start)
    while True:
        recipe = recipe_at(math.exp(guess))
        gap = _gap(_epsilon(recipe), target)
        bracket.narrow(guess, gap)
        if -TOLERANCE / 2 <= gap <= 0 or bracket.width < 1e-12:
            return math.exp(bracket.enough)
        if bracket.enough < math.log(_LEAST_NOISE):
            return math.exp(bracket.enough)
        if bracket.too_little > math.log(_MOST_NOISE):
            raise InvalidInput(
                f"Expected an epsilon that some amount of noise reaches, got {target:g}: "
                f"{recipe.guarantee()}"
            )
        guess = bracket.guess()


class _Bracket:
    """Where the wanted logarithm lies: above what was too little, at most what was enough."""

    def __init__(self) -> None:
        self.too_little, self.enough = -math.inf, math.inf
        self._excess, self._slack = math.inf, -math.inf  # the gaps there
        self._last = 0.0

    @property
    def width(self) -> float:
        return self.enough - self.too_little

    def narrow(self, place: float, gap: float) -> None:
        # An end that stays twice counts for half, or a curve would let the secant crawl.
        weight = 0.5 if gap * self._last > 0 else 1.0
        self._last = gap
        if gap <= 0:
            self.enough, self._slack, self._excess = place, gap, weight * self._excess
        else:
            self.too_little, self._excess, self._slack = place, gap, weight * self._slack

    def guess(self) -> float:
        """Slightly on the side of enough, so that a good guess is not rejected."""
        if math.isinf(self.enough):
            return self.too_little + min(_STRETCH * self._excess, _FARTHEST)
        if math.isinf(self.too_little):
            return self.enough + max(_STRETCH * self._slack, -_FARTHEST)
        fall = self._excess - self._slack
        share = (self._excess + TOLERANCE / 4) / fall if math.isfinite(fall) else 0.5
        return self.too_little + min(max(share, 0.02), 0.98) * self.width


def _gap(spent: float, target: float) -> float:
    return math.log(spent / target) if spent > 0 else -math.inf
