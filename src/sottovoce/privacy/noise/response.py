"""Randomised response: report the true value with a known probability, or else another value.

`keep_or_replace` draws the decisions of the token mechanism M(y|x) = (1-p) [y=x] + p pi(y);
`randomised_response` is the k-ary mechanism that reports the true value with probability
e**epsilon / (e**epsilon + k - 1). The replacement probability is rounded up by less than 2**-64,
never down, so rounding cannot reduce privacy; 0 and 1 are exact.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise._coin import threshold, toss
from sottovoce.privacy.noise.source import NoiseSource


def keep_or_replace(n: int, replace_probability: float, source: NoiseSource) -> NDArray[np.bool_]:
    """`n` independent decisions: True where the token must be replaced.

    >>> keep_or_replace(3, 1.0, NoiseSource()).tolist()
    [True, True, True]
    >>> float(keep_or_replace(10_000, 0.3, NoiseSource.seeded(7)).mean().round(2))
    0.3
    """
    _validate.not_negative("n", n)
    _validate.probability("replace_probability", replace_probability)
    return toss(n, threshold(replace_probability), source)


def randomised_response(
    values: ArrayLike, categories: int, epsilon: float, source: NoiseSource
) -> NDArray[np.int64]:
    """Report each value from 0 to categories - 1, or else one of the others, uniformly.

    >>> answers = randomised_response([0] * 10_000, 4, 1.0, NoiseSource.seeded(7))
    >>> (np.bincount(answers) / 10_000).round(1).tolist()
    [0.5, 0.2, 0.2, 0.2]
    """
    _validate.at_least_one("categories", categories)
    _validate.not_negative("epsilon", epsilon)
    truth = _checked(values, categories)
    lie = toss(truth.size, threshold(lie_probability(categories, epsilon)), source)
    answers = truth.reshape(-1)
    # An offset of 1 to k-1, modulo k, reaches each of the others exactly once. With a single
    # category no offset is drawn.
    steps = 1 + source.integers(max(categories - 1, 1), int(lie.sum()))
    answers[lie] = (answers[lie] + steps) % categories
    return answers.reshape(truth.shape)


def lie_probability(categories: int, epsilon: float) -> float:
    """(k - 1) / (e**epsilon + k - 1), written so that a large epsilon does not overflow.

    Beyond epsilon 745 it underflows to 0.

    >>> lie_probability(2, 0.0), lie_probability(2, 2000.0), lie_probability(1, 0.0)
    (0.5, 0.0, 0.0)
    """
    others = (categories - 1) * math.exp(-epsilon)
    return others / (1 + others)


def _checked(values: ArrayLike, categories: int) -> NDArray[np.int64]:
    truth = np.asarray(values)
    if truth.size and truth.dtype.kind not in "iu":
        raise InvalidInput(f"Expected values to be integers, got {truth.dtype}.")
    if (wrong := truth[(truth < 0) | (truth >= categories)]).size:
        raise InvalidInput(f"Expected values from 0 to {categories - 1}, got {wrong.flat[0]}.")
    return truth.astype(np.int64)
