"""Biased coins with an exact bias: a random word of 64 bits is compared with a whole number.

A coin of `threshold` comes up heads with probability threshold / 2**64, exactly; 0 is never and
2**64 is always.
"""

import math

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.noise.source import NoiseSource

ALWAYS = 2**64


def threshold(probability: float) -> int:
    """The smallest threshold whose coin has at least this probability (off by less than 2**-64).

    >>> threshold(0.0), threshold(0.5) == 2**63, threshold(1.0) == ALWAYS, threshold(1e-300)
    (0, True, True, 1)
    """
    return math.ceil(math.ldexp(probability, 64))


def toss(n: int, threshold: int, source: NoiseSource) -> NDArray[np.bool_]:
    """`n` tosses of the coin.

    >>> toss(3, ALWAYS, NoiseSource()).tolist()
    [True, True, True]
    """
    if threshold == ALWAYS:
        return np.ones(n, np.bool_)
    return source.words(n) < np.uint64(threshold)
