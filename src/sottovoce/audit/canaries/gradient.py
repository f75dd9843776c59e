"""Gradient canaries: gradients of maximal norm, added to the sum before the noise.

A text canary acts through the model; a gradient canary is the worst case directly. Each included
canary adds C times its direction to every step it is sampled into, the most that clipping allows
one example. The score of a canary is the inner product of the released sums with its direction.
Dirac canaries use one coordinate each and do not interfere; random directions interfere by about
1 / sqrt(dimension), but do not depend on coordinates where real gradients are small.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce import _validate
from sottovoce.audit import _checks
from sottovoce.audit._checks import Flags, Scores
from sottovoce.audit.canaries.text import fair_coins
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource, gaussian


class GradientCanaries(Protocol):
    """Directions in gradient space, some of them included."""

    @property
    def included(self) -> Flags: ...

    def contribution(self, present: Flags | None = None) -> Scores:
        """The sum of the included canaries in one step; `present` marks those sampled."""
        ...

    def along(self, vector: Scores) -> Scores:
        """The inner product of `vector` with each direction."""
        ...


@dataclass(frozen=True, eq=False)
class DiracCanaries:
    """One coordinate and one sign per canary; memory of one gradient, for any number."""

    coordinates: NDArray[np.intp]
    signs: Scores
    dimension: int
    clip_norm: float
    included: Flags

    @classmethod
    def draw(
        cls, count: int, *, dimension: int, clip_norm: float, source: NoiseSource
    ) -> "DiracCanaries":
        """Canaries at distinct coordinates.

        >>> canaries = DiracCanaries.draw(4, dimension=10, clip_norm=2.0,
        ...                               source=NoiseSource.seeded(1))
        >>> step = canaries.contribution()
        >>> bool((np.abs(step[step != 0]) == 2).all()), int((step != 0).sum())
        (True, 2)
        >>> (canaries.along(step) == 2.0 * canaries.included).all().item()
        True
        """
        _validate.at_least_one("count", count)
        _validate.positive("clip_norm", clip_norm)
        if count > dimension:
            raise InvalidInput(
                f"Expected at most one Dirac canary for each of {dimension} coordinates, got "
                f"{count}."
            )
        places = source.words(dimension).argsort(kind="stable")[:count]
        signs = np.where(fair_coins(count, source), 1.0, -1.0)
        return cls(places, signs, dimension, clip_norm, fair_coins(count, source))

    def contribution(self, present: Flags | None = None) -> Scores:
        added = np.zeros(self.dimension)
        chosen = _chosen(self.included, present)
        added[self.coordinates[chosen]] = self.clip_norm * self.signs[chosen]
        return added

    def along(self, vector: Scores) -> Scores:
        inner: Scores = self.signs * vector[self.coordinates]
        return inner


@dataclass(frozen=True, eq=False)
class RandomCanaries:
    """One random direction per canary; memory of count * dimension numbers."""

    directions: Scores
    clip_norm: float
    included: Flags

    @classmethod
    def draw(
        cls, count: int, *, dimension: int, clip_norm: float, source: NoiseSource
    ) -> "RandomCanaries":
        """Canaries in uniformly random directions."""
        _validate.at_least_one("count", count)
        _validate.at_least_one("dimension", dimension)
        _validate.positive("clip_norm", clip_norm)
        directions = gaussian((count, dimension), 1.0, source)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return cls(directions, clip_norm, fair_coins(count, source))

    def contribution(self, present: Flags | None = None) -> Scores:
        chosen = _chosen(self.included, present)
        added: Scores = self.clip_norm * self.directions[chosen].sum(axis=0)
        return added

    def along(self, vector: Scores) -> Scores:
        inner: Scores = self.directions @ vector
        return inner


def gradient_scores(
    canaries: GradientCanaries,
    noisy_sums: Iterable[ArrayLike],
    noise_stds: Iterable[float] | None = None,
) -> Scores:
    """The score of each canary, from the noisy sums that private training released.

    With `noise_stds`, each step is weighted by 1 / std^2, which is optimal for Gaussian noise. Only
    one gradient is kept in memory.
    """
    total: Scores | None = None
    stds = iter(noise_stds) if noise_stds is not None else None
    for step in noisy_sums:
        released = _checks.scores("a noisy sum", step, size=None if total is None else total.size)
        std = 1.0 if stds is None else next(stds, 0.0)
        released = released / _validate.positive("the noise of every step", std) ** 2
        total = released if total is None else total + released
    if total is None:
        raise InvalidInput("Expected the noisy sum of at least one step, got none.")
    return canaries.along(total)


def _chosen(included: Flags, present: Flags | None) -> Flags:
    if present is None:
        return included
    return included & _checks.flags("present", present, included.shape)
