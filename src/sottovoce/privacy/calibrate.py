"""Calibration: the least noise for a target epsilon.

The result is checked with the accountant itself: its epsilon is at most the target, and within
0.1 % of it.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol, TypeVar

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accounting import Entry
from sottovoce.privacy.guarantee import Guarantee, Relation
from sottovoce.privacy.risk import tradeoff

# Relative tolerance: how far below the target the epsilon may be.
TOLERANCE = 1e-3

_LEAST_NOISE, _MOST_NOISE = 1e-4, 1e7
# Until the target is bracketed, extrapolate as if epsilon were proportional to 1 / noise: a little
# farther, to cross the target, but by at most _LARGEST_STEP, because epsilon falls faster far away.
_STRETCH, _LARGEST_STEP = 1.2, 3.0


class _HasGuarantee(Protocol):
    def guarantee(self) -> Guarantee: ...


class NoisyRecipe(_HasGuarantee, Protocol):
    """A dataclass with a noise multiplier, such as a `TrainingRecipe` or a training plan."""

    @property
    def noise_multiplier(self) -> float: ...


class HasEntries(Protocol):
    """A recipe that says what it will execute."""

    @property
    def neighbours(self) -> Relation: ...
    def entries(self) -> Iterable[Entry]: ...


class NoisyEntries(HasEntries, NoisyRecipe, Protocol):
    """A recipe with a noise multiplier that says what it will execute."""


R = TypeVar("R", bound=NoisyRecipe)
S = TypeVar("S", bound=NoisyEntries)


def noise_multiplier(recipe: R, epsilon: float) -> R:
    """The recipe with the least noise that stays within epsilon.

    >>> from sottovoce.privacy.recipes import Method, TrainingRecipe
    >>> recipe = TrainingRecipe(method=Method.DP_SGD, noise_multiplier=1.0, epochs=10,
    ...                         steps_per_epoch=140, sampling_rate=0.007, delta=5e-4)
    >>> calibrated = noise_multiplier(recipe, epsilon=3.0)
    >>> 3.0 * (1 - TOLERANCE) <= calibrated.guarantee().epsilon <= 3.0
    True
    """

    def with_noise(noise: float) -> R:
        return replace(recipe, noise_multiplier=noise)  # type: ignore[type-var]

    return with_noise(_least(with_noise, epsilon, recipe.noise_multiplier))


def noise_multiplier_for_risk(recipe: S, risk: float, *, prior: float | None = None) -> S:
    """The recipe with the least noise at which an attack succeeds with at most this probability.

    The attack is a test whether somebody took part or, with a `prior`, a guess of a value that is
    right with this probability before the release: 1/100 for one of a hundred values.

    >>> from sottovoce.privacy.recipes import Method, TrainingRecipe
    >>> recipe = TrainingRecipe(method=Method.DP_SGD, noise_multiplier=1.0, epochs=1,
    ...                         steps_per_epoch=50, sampling_rate=1.0, delta=1e-6)
    >>> calibrated = noise_multiplier_for_risk(recipe, 0.6)
    >>> 0.59 < success(calibrated) <= 0.6
    True
    """
    _validate.rate("risk", risk)
    blind = 0.5 if prior is None else _validate.rate("prior", prior)
    if not blind < risk < 1:
        raise InvalidInput(
            f"Expected a risk above the chance of a blind guess ({blind:g}) and below 1, got "
            f"{risk:g}."
        )

    def with_noise(noise: float) -> S:
        return replace(recipe, noise_multiplier=noise)  # type: ignore[type-var]

    low, high = math.log(_LEAST_NOISE), math.log(_MOST_NOISE)
    if success(with_noise(_MOST_NOISE), prior=prior) > risk:
        raise InvalidInput(f"Expected a risk that some amount of noise reaches, got {risk:g}.")
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        if success(with_noise(math.exp(middle)), prior=prior) <= risk:
            high = middle
        else:
            low = middle
    return with_noise(math.exp(high))


def success(recipe: HasEntries, *, prior: float | None = None) -> float:
    """The largest success of a test of membership, or of a guess with this `prior`."""
    curve = tradeoff(list(recipe.entries()), relation=recipe.neighbours)
    return curve.membership if prior is None else curve.success(prior)


def _epsilon(recipe: _HasGuarantee) -> float:
    guarantee = recipe.guarantee()
    return guarantee.epsilon if guarantee.holds else math.inf


def _least(recipe_at: Callable[[float], _HasGuarantee], target: float, start: float) -> float:
    """The least noise, to within the tolerance, at which the recipe is within `target`.

    Secant steps on the logarithms (epsilon is close to a power of the noise), safeguarded by a
    bracket, because each evaluation may take a second.
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
    """Bounds on the logarithm of the noise: above `too_little`, at most `enough`."""

    def __init__(self) -> None:
        self.too_little, self.enough = -math.inf, math.inf
        self._excess, self._slack = math.inf, -math.inf  # the gaps at both ends
        self._last = 0.0

    @property
    def width(self) -> float:
        return self.enough - self.too_little

    def narrow(self, place: float, gap: float) -> None:
        # Illinois method: halve the weight of an end that stays, or convergence is slow.
        weight = 0.5 if gap * self._last > 0 else 1.0
        self._last = gap
        if gap <= 0:
            self.enough, self._slack, self._excess = place, gap, weight * self._excess
        else:
            self.too_little, self._excess, self._slack = place, gap, weight * self._slack

    def guess(self) -> float:
        """The next point, slightly on the side of `enough`, so that a good guess is accepted."""
        if math.isinf(self.enough):
            return self.too_little + min(_STRETCH * self._excess, _LARGEST_STEP)
        if math.isinf(self.too_little):
            return self.enough + max(_STRETCH * self._slack, -_LARGEST_STEP)
        fall = self._excess - self._slack
        share = (self._excess + TOLERANCE / 4) / fall if math.isfinite(fall) else 0.5
        return self.too_little + min(max(share, 0.02), 0.98) * self.width


def _gap(spent: float, target: float) -> float:
    return math.log(spent / target) if spent > 0 else -math.inf
