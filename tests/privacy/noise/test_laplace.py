"""Laplace noise against its formula, at the ends of the uniform variable, and its arguments."""

import math

import numpy as np
import pytest
from tests.privacy.noise.fixed import FixedWords

from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource, laplace
from sottovoce.privacy.noise.source import BLOCK


def test_against_the_formula() -> None:
    words = NoiseSource.seeded(1).words(500).tolist()
    expected = [
        (1 if word % 2 else -1) * 3.0 * math.log((word // 2 + 0.5) / 2**63) for word in words
    ]
    assert laplace(500, 3.0, NoiseSource.seeded(1)).tolist() == pytest.approx(expected, rel=1e-14)


def test_parts_make_the_whole() -> None:
    source = NoiseSource.seeded(1)
    parts = np.concatenate([laplace(n, 1.0, source) for n in (BLOCK + 3, 5, 2 * BLOCK)])
    assert (parts == laplace(parts.size, 1.0, NoiseSource.seeded(1))).all()


def test_the_extreme_words_give_finite_noise() -> None:
    farthest = 64 * math.log(2)
    noise = laplace(4, 1.0, FixedWords([0, 1, 2**64 - 2, 2**64 - 1]))
    assert noise.tolist() == pytest.approx([farthest, -farthest, 0.0, 0.0], rel=1e-15)


def test_shapes() -> None:
    for shape in [(), (0,), (2, 0), (2, 3)]:
        noise = laplace(shape, 1.0, NoiseSource())
        assert noise.shape == shape
        assert noise.dtype == np.float64


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_impossible_scales(scale: float) -> None:
    with pytest.raises(InvalidInput, match="Expected scale > 0"):
        laplace(3, scale, NoiseSource())


def test_a_scale_that_would_overflow() -> None:
    with pytest.raises(InvalidInput, match="Expected scale from"):
        laplace(3, 1e308, NoiseSource())
    with pytest.raises(InvalidInput, match="negative sizes"):
        laplace(-3, 1.0, NoiseSource())
