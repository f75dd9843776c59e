"""Exact discrete draws: coins, integer noise, randomised response, categorical choices.

Integers do not leak through floating-point rounding (Mironov 2012), and their sums are exact under
secure aggregation.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from itertools import count, takewhile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce import _validate
from sottovoce._validate import Shape
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise.source import BLOCK, NoiseSource

ALWAYS = 2**64


def threshold(probability: float) -> int:
    """The smallest threshold with at least this probability (error below 2**-64).

    >>> threshold(0.0), threshold(0.5) == 2**63, threshold(1.0) == ALWAYS, threshold(1e-300)
    (0, True, True, 1)
    """
    return math.ceil(math.ldexp(probability, 64))


def toss(n: int, threshold: int, source: NoiseSource) -> NDArray[np.bool_]:
    """`n` Bernoulli draws, each True with probability exactly threshold / 2**64.

    A random 64-bit word is compared with the threshold: a draw is never True at 0 and always at
    2**64.

    >>> toss(3, ALWAYS, NoiseSource()).tolist()
    [True, True, True]
    """
    if threshold == ALWAYS:
        return np.ones(n, np.bool_)
    return source.words(n) < np.uint64(threshold)


# Up to this scale every draw is exact as a double, as the rejection step requires.
LARGEST_SCALE = 2.0**46


def discrete_laplace(shape: Shape, scale: float, source: NoiseSource) -> NDArray[np.int64]:
    """Independent integers with P(k) proportional to exp(-|k| / scale).

    A draw uses no floating point: one Bernoulli variable for "zero or not", one for the sign and
    one per binary digit. Each compares 64 bits, with an error of at most 2**-65, so a draw is
    within 2**-59 of the distribution (total variation).

    >>> noise = discrete_laplace(100_000, 3.0, NoiseSource.seeded(7))
    >>> noise.dtype, round(float(abs(noise).mean()))
    (dtype('int64'), 3)
    """
    coins = _coins(_check("scale", scale))
    out = np.empty(_validate.shape(shape), np.int64)
    flat = out.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK]
        block[:] = _toss_laplace(block.size, coins, source)
    return out


def discrete_gaussian(shape: Shape, sigma: float, source: NoiseSource) -> NDArray[np.int64]:
    """Independent integers with P(k) proportional to exp(-k**2 / (2 sigma**2)).

    Drawn by rejection (Canonne, Kamath and Steinke 2020, algorithm 3): a discrete Laplace draw is
    accepted by comparing 64 random bits with a probability computed in double precision, whose
    relative error is below 2**-44 within 10 sigma; larger draws have probability below 2**-75.

    >>> noise = discrete_gaussian(100_000, 3.0, NoiseSource.seeded(7))
    >>> noise.dtype, round(float(noise.std()))
    (dtype('int64'), 3)
    """
    sigma = _check("sigma", sigma)
    scale = math.floor(sigma) + 1
    coins = _coins(float(scale))
    out = np.empty(_validate.shape(shape), np.int64)
    flat = out.reshape(-1)
    filled = 0
    while filled < flat.size:
        drawn = _toss_laplace(min(flat.size - filled, BLOCK), coins, source)
        with np.errstate(over="ignore"):  # a tiny sigma correctly gives an infinite exponent
            exponent = ((np.abs(drawn) - sigma * (sigma / scale)) / sigma) ** 2 / 2
        accepted = drawn[source.words(drawn.size) < np.exp(-exponent) * 2.0**64]
        flat[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return out


def _check(name: str, scale: float) -> float:
    return float(_validate.between(name, _validate.positive(name, scale), 0, LARGEST_SCALE))


@dataclass(frozen=True, slots=True)
class _LaplaceCoins:
    """The Bernoulli thresholds of a discrete Laplace variable."""

    zero: int
    digits: tuple[int, ...]


@lru_cache
def _coins(scale: float) -> _LaplaceCoins:
    """Compute the thresholds in decimals with enough digits for 64 correct bits.

    With q = exp(-1 / scale), the variable is 0 with probability (1 - q) / (1 + q). Otherwise its
    magnitude is 1 + G with G geometric, P(G >= g) = q**g; and the binary digits of G are
    independent, digit i being 1 with probability q**(2**i) / (1 + q**(2**i)).
    """
    with localcontext(Context(prec=60)):
        rate = 1 / Decimal(scale)
        q = (-rate).exp()
        powers = ((-rate * 2**i).exp() for i in count())
        digits = (_nearest(power / (1 + power)) for power in powers)
        # Stop at the first digit whose probability rounds to 0.
        return _LaplaceCoins(_nearest((1 - q) / (1 + q)), tuple(takewhile(bool, digits)))


def _nearest(probability: Decimal) -> int:
    return int((probability * ALWAYS).to_integral_value())


def _toss_laplace(n: int, coins: _LaplaceCoins, source: NoiseSource) -> NDArray[np.int64]:
    values = np.ones(n, np.int64)
    for digit, chance in enumerate(coins.digits):
        values += toss(n, chance, source) * np.int64(1 << digit)
    np.negative(values, out=values, where=toss(n, ALWAYS // 2, source))
    values[toss(n, coins.zero, source)] = 0
    return values


def keep_or_replace(n: int, replace_probability: float, source: NoiseSource) -> NDArray[np.bool_]:
    """`n` independent decisions: True where the token must be replaced.

    These are the decisions of the token mechanism M(y|x) = (1-p) [y=x] + p pi(y). The probability p
    is rounded up by less than 2**-64, never down, so rounding cannot reduce privacy; 0 and 1 are
    exact.

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

    The k-ary mechanism reports the true value with probability e**epsilon / (e**epsilon + k - 1).
    The probability of another value is rounded up, as in `keep_or_replace`.

    >>> answers = randomised_response([0] * 10_000, 4, 1.0, NoiseSource.seeded(7))
    >>> (np.bincount(answers) / 10_000).round(1).tolist()
    [0.5, 0.2, 0.2, 0.2]
    """
    _validate.at_least_one("categories", categories)
    _validate.not_negative("epsilon", epsilon)
    truth = _checked_values(values, categories)
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


def _checked_values(values: ArrayLike, categories: int) -> NDArray[np.int64]:
    truth = np.asarray(values)
    if truth.size and truth.dtype.kind not in "iu":
        raise InvalidInput(f"Expected values to be integers, got {truth.dtype}.")
    if (wrong := truth[(truth < 0) | (truth >= categories)]).size:
        raise InvalidInput(f"Expected values from 0 to {categories - 1}, got {wrong.flat[0]}.")
    return truth.astype(np.int64)


class Categorical:
    """A distribution on 0, 1, ..., k - 1 with probabilities proportional to `weights`.

    The 2**64 random words are partitioned among the alternatives, and a draw looks up the part that
    a word falls into. The parts have integer sizes, so an alternative of probability 0 is never
    drawn, and a rare one keeps its probability to 15 digits: the guarantee of a token depends on
    the rarest.

    >>> surrogates = Categorical([3, 0, 1])
    >>> sorted(set(surrogates.draw(100, NoiseSource.seeded(7)).tolist()))
    [0, 2]
    >>> Categorical([0.5, -0.5])
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected weights >= 0, got -0.5.
    """

    def __init__(self, weights: ArrayLike) -> None:
        weight = _checked_weights(weights)
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


def _checked_weights(weights: ArrayLike) -> NDArray[np.float64]:
    weight = np.asarray(weights, np.float64)
    if weight.ndim != 1 or not weight.size:
        raise InvalidInput(f"Expected a list of weights, got an array of shape {weight.shape}.")
    if (wrong := weight[~(np.isfinite(weight) & (weight >= 0))]).size:
        raise InvalidInput(f"Expected weights >= 0, got {wrong[0]:g}.")
    if not weight.any():
        raise InvalidInput("Expected at least one weight above 0, got none.")
    return weight
