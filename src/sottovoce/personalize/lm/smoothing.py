"""From counts to a distribution: the three classical smoothings.

All of them are non-decreasing in every count and keep the total mass, so they do not change how
far one utterance can move c q (see the privacy notes on smoothing).
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
    """q = (n + mu u) / (c + mu): the background speaks as loudly as `mass` words.

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


@dataclass(frozen=True)
class Lidstone:
    """q = (n + a) / (c + a V): every word was seen a little.

    >>> import numpy as np
    >>> Lidstone(0.5)(np.array([2.0, 1.0]), np.array([0.5, 0.5])).tolist()
    [0.625, 0.375]
    """

    added: float = 0.1

    def __post_init__(self) -> None:
        _validate.positive("added", self.added)

    def __call__(self, counts: Vector, background: Vector) -> Vector:
        smoothed: Vector = (counts + self.added) / (counts.sum() + self.added * counts.size)
        return smoothed


@dataclass(frozen=True)
class JelinekMercer:
    """q = (1 - w) n / c + w u, and u itself where nothing was counted.

    >>> import numpy as np
    >>> JelinekMercer(0.1)(np.array([3.0, 1.0]), np.array([0.5, 0.5])).tolist()
    [0.725..., 0.275...]
    """

    weight: float = 0.1

    def __post_init__(self) -> None:
        _validate.rate("weight", self.weight)

    def __call__(self, counts: Vector, background: Vector) -> Vector:
        total = counts.sum()
        if total <= 0:
            return background.copy()
        smoothed: Vector = (1 - self.weight) * counts / total + self.weight * background
        return smoothed
