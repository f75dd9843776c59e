"""Smoothing: from counts to a distribution.

A smoothing is non-decreasing in every count and preserves the total mass, so it does not change how
much one utterance can move c q (see the privacy notes on smoothing).
"""

from dataclasses import dataclass
from typing import Protocol

from sottovoce import _validate
from sottovoce.personalize.lm.vocabulary import Vector


class Smoothing(Protocol):
    """Turns counts n and the background u into a distribution q."""

    def __call__(self, counts: Vector, background: Vector) -> Vector: ...


@dataclass(frozen=True)
class Dirichlet:
    """q = (n + mu u) / (c + mu): the background counts as `mass` words.

    >>> import numpy as np
    >>> Dirichlet(1.0)(np.array([2.0, 1.0]), np.array([0.5, 0.5])).tolist()
    [0.625, 0.375]
    """

    mass: float = 1.0

    def __post_init__(self) -> None:
        _validate.positive("mass", self.mass)

    def __call__(self, counts: Vector, background: Vector) -> Vector:
        smoothed: Vector = (counts + self.mass * background) / (counts.sum() + self.mass)
        return smoothed
