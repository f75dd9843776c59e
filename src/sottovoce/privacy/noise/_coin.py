"""Exact Bernoulli draws: a random 64-bit word is compared with an integer threshold.

A draw is True with probability exactly threshold / 2**64: never at 0, always at 2**64.
"""

import math

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.noise.source import NoiseSource

ALWAYS = 2**64


def threshold(probability: float) -> int:
    """The smallest threshold with at least this probability (error below 2**-64).

    >>> threshold(0.0), threshold(0.5) == 2**63, threshold(1.0) == ALWAYS, threshold(1e-300)
    (0, True, True, 1)
    """
    return math.ceil(math.ldexp(probability, 64))


def toss(n: int, threshold: int, source: NoiseSource) -> NDArray[np.bool_]:
    """`n` Bernoulli draws.

    >>> toss(3, ALWAYS, NoiseSource()).tolist()
    [True, True, True]
    """
    if threshold == ALWAYS:
        return np.ones(n, np.bool_)
    return source.words(n) < np.uint64(threshold)
