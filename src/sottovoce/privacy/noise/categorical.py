"""Categorical draws from a public list: surrogate names, placeholders, words of a vocabulary.

The 2**64 random words are partitioned among the alternatives, and a draw looks up the part that a
word falls into. The parts have integer sizes, so an alternative of probability 0 is never drawn,
and a rare one keeps its probability to 15 digits: the guarantee of a token depends on the rarest.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise.source import NoiseSource


class Categorical:
    """A distribution on 0, 1, ..., k - 1 with probabilities proportional to `weights`.

    >>> surrogates = Categorical([3, 0, 1])
    >>> sorted(set(surrogates.draw(100, NoiseSource.seeded(7)).tolist()))
    [0, 2]
    >>> Categorical([0.5, -0.5])
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected weights >= 0, got -0.5.
    """

    def __init__(self, weights: ArrayLike) -> None:
        weight = _checked(weights)
        largest = np.argmax(weight)
        (others,) = np.nonzero((weight > 0) & (np.arange(weight.size) != largest))
        # Division by the largest weight prevents overflow of the sum.
        relative = weight / weight[largest]
        # Every share is rounded up, to at least one word, and the largest takes the rest: rounding
        # makes no alternative impossible, and the rarest one no rarer.
        shares = np.maximum(np.ceil(relative[others] / relative.sum() * 2.0**64), 1)
        self._ends = np.cumsum(shares.astype(np.uint64))
        self._alternatives = np.append(others, largest)

    def draw(self, n: int, source: NoiseSource) -> NDArray[np.intp]:
        """`n` independent draws."""
        return self._alternatives[np.searchsorted(self._ends, source.words(n), side="right")]


def _checked(weights: ArrayLike) -> NDArray[np.float64]:
    weight = np.asarray(weights, np.float64)
    if weight.ndim != 1 or not weight.size:
        raise InvalidInput(f"Expected a list of weights, got an array of shape {weight.shape}.")
    if (wrong := weight[~(np.isfinite(weight) & (weight >= 0))]).size:
        raise InvalidInput(f"Expected weights >= 0, got {wrong[0]:g}.")
    if not weight.any():
        raise InvalidInput("Expected at least one weight above 0, got none.")
    return weight
