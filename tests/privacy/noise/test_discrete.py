"""Integer noise: its exact distribution, and the limits of its arguments."""

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource, discrete_gaussian, discrete_laplace
from sottovoce.privacy.noise.discrete import LARGEST_SCALE, _coins
from sottovoce.privacy.noise.source import BLOCK

Draw = Callable[[int | tuple[int, ...], float, NoiseSource], NDArray[np.int64]]
DRAWS: list[Draw] = [discrete_laplace, discrete_gaussian]


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 7.5])
def test_the_coins_make_the_distribution(scale: float) -> None:
    """The exact distribution of the draws is within 2**-59 of the definition."""
    coins = _coins(scale)
    with localcontext(Context(prec=60)):
        magnitudes = [Decimal(1)]
        for digit in reversed(coins.digits):
            one = Decimal(digit) / 2**64
            magnitudes = [p * q for p in magnitudes for q in (1 - one, one)]
        zero = Decimal(coins.zero) / 2**64
        law = [zero] + [(1 - zero) * p / 2 for p in magnitudes]  # of 0, 1, 2, ...

        q = (-1 / Decimal(scale)).exp()
        truth = [(1 - q) / (1 + q) * q**k for k in range(len(law))]
        error = 2 * sum(abs(a - b) for a, b in zip(law, truth, strict=True))
        beyond = 2 * truth[-1] * q / (1 - q)
        assert (error + beyond) / 2 < Decimal(2) ** -59


def test_a_large_scale_has_nearly_fair_low_digits() -> None:
    digits = _coins(1e6).digits
    assert all(later <= earlier < 2**63 for earlier, later in pairwise(digits))
    assert digits[0] / 2**64 == pytest.approx(1 / (1 + math.exp(1e-6)), rel=1e-15)
    assert 2 ** len(digits) > 44 * 1e6


@pytest.mark.parametrize("draw", DRAWS)
def test_tiny_scales_give_zeros(draw: Draw) -> None:
    for scale in [0.02, 1e-9, 1e-200, 5e-324]:
        assert not draw(1000, scale, NoiseSource.seeded(1)).any()


@pytest.mark.parametrize("draw", DRAWS)
def test_huge_scales_fit(draw: Draw) -> None:
    noise = draw(1000, LARGEST_SCALE, NoiseSource.seeded(1))
    assert 0.5 < np.abs(noise).mean() / LARGEST_SCALE < 1.5
    assert np.abs(noise).max() < 2**53


def test_the_gaussian_against_a_plain_rejection() -> None:
    """Same Laplace draws, same words: the same values are accepted."""
    sigma, n = 2.6, 4000
    scale = math.floor(sigma) + 1
    source = NoiseSource.seeded(1)
    drawn = discrete_laplace(n, scale, source).tolist()
    words = source.words(n).tolist()
    accepted = [
        k
        for k, word in zip(drawn, words, strict=True)
        if word / 2**64 < math.exp(-((abs(k) - sigma**2 / scale) ** 2) / (2 * sigma**2))
    ]
    assert len(accepted) > n / 2
    noise = discrete_gaussian(n, sigma, NoiseSource.seeded(1)).tolist()
    assert noise[: len(accepted)] == accepted


@pytest.mark.parametrize("draw", DRAWS)
def test_a_seed_repeats_and_every_place_is_written(draw: Draw) -> None:
    n = 2 * BLOCK + 3
    noise = draw(n, 1e6, NoiseSource.seeded(1))
    assert (noise == draw(n, 1e6, NoiseSource.seeded(1))).all()
    assert np.unique(noise).size > 0.9 * n


@pytest.mark.parametrize("draw", DRAWS)
def test_any_kind_of_number_is_a_scale(draw: Draw) -> None:
    expected = draw(20, 3.0, NoiseSource.seeded(1)).tolist()
    for scale in [3, np.float32(3), np.int64(3)]:
        assert draw(20, scale, NoiseSource.seeded(1)).tolist() == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("draw", DRAWS)
def test_shapes(draw: Draw) -> None:
    for shape in [(), (0,), (2, 0), (2, 3)]:
        noise = draw(shape, 2.0, NoiseSource())
        assert noise.shape == shape
        assert noise.dtype == np.int64


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2 * LARGEST_SCALE])
def test_impossible_scales(scale: float) -> None:
    with pytest.raises(InvalidInput, match="Expected scale"):
        discrete_laplace(3, scale, NoiseSource())
    with pytest.raises(InvalidInput, match="Expected sigma"):
        discrete_gaussian(3, scale, NoiseSource())


@pytest.mark.parametrize("draw", DRAWS)
def test_impossible_shapes(draw: Draw) -> None:
    with pytest.raises(InvalidInput, match="negative sizes"):
        draw((2, -3), 1.0, NoiseSource())
