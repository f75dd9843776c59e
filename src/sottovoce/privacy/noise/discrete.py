"""Integer noise: the discrete Laplace and the discrete Gaussian distribution.

Integers do not leak through floating-point rounding (Mironov 2012), and their sums are exact under
secure aggregation. A Laplace variable is assembled from independent Bernoulli draws, one per binary
digit; a Gaussian one is drawn from it by rejection (Canonne, Kamath and Steinke 2020, algorithm 3).
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from itertools import count, takewhile

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce._validate import Shape
from sottovoce.privacy.noise._coin import ALWAYS, toss
from sottovoce.privacy.noise.source import BLOCK, NoiseSource

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

    A discrete Laplace draw is accepted by comparing 64 random bits with a probability computed in
    double precision: its relative error is below 2**-44 within 10 sigma; larger draws have
    probability below 2**-75.

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
