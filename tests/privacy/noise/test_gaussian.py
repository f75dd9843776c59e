"""The ziggurat against a plain reference, and the edges of its arguments.

The distribution itself is tested in tests/statistical.
"""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.privacy.noise.fixed import FixedWords

from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource, gaussian, gaussian_into
from sottovoce.privacy.noise.gaussian import LAYERS, ziggurat
from sottovoce.privacy.noise.source import BLOCK

FLOATS = [np.float32, np.float64]


def density(x: float) -> float:
    return math.exp(-x * x / 2)


def test_the_layers_have_equal_areas_and_close_at_the_summit() -> None:
    edge = ziggurat().edge.tolist()
    r = edge[1]
    area = r * density(r) + math.sqrt(math.pi / 2) * math.erfc(r / math.sqrt(2))
    assert edge[0] * density(r) == pytest.approx(area, rel=1e-14)
    for low, high in pairwise(edge[1:]):
        assert low * (density(high) - density(low)) == pytest.approx(area, rel=1e-11)
    assert len(edge) == LAYERS + 1
    assert edge[-1] == 0
    # Doornik (2005) prints this edge and area for 256 layers.
    assert r == pytest.approx(3.6541528853610088, rel=1e-14)
    assert area == pytest.approx(0.00492867323399, rel=1e-11)


def plain_candidate(word: int, bits: int, mantissa: int) -> tuple[int, float]:
    """The layer and the candidate of one word, by the definition."""
    layer = word % LAYERS
    signed = word - (1 << bits) if word >> (bits - 1) else word
    odd = (signed >> (bits - mantissa - 1)) | 1
    return layer, odd / 2**mantissa * float(ziggurat().edge[layer])


@pytest.mark.parametrize(
    ("dtype", "bits", "mantissa"), [(np.float32, 32, 24), (np.float64, 64, 53)]
)
def test_against_a_plain_ziggurat(dtype: type[np.floating[Any]], bits: int, mantissa: int) -> None:
    """Same bits, same decisions: kept at once, kept in the wedge, or drawn again."""
    n, std = 30_000, 3.0
    out = np.empty(n, dtype)
    gaussian_into(out, std, NoiseSource.seeded(1))

    source, edge = NoiseSource.seeded(1), ziggurat().edge
    words = (source.halves(n) if bits == 32 else source.words(n)).tolist()
    candidates = [plain_candidate(word, bits, mantissa) for word in words]
    unsure = [i for i, (layer, x) in enumerate(candidates) if abs(x) >= edge[layer + 1]]
    assert 0.013 < len(unsure) / n < 0.017
    heights = dict(zip(unsure, source.uniform(len(unsure)).tolist(), strict=True))

    kept, tails = 0, 0
    for i, (layer, x) in enumerate(candidates):
        low, high = density(edge[layer]), density(edge[layer + 1])
        if i in heights and layer == 0:
            assert abs(out[i]) >= std * edge[1] * (1 - 1e-7)
            assert (out[i] > 0) == (x > 0)
            tails += 1
        elif i not in heights or low + (high - low) * heights[i] < density(x):
            assert out[i] == pytest.approx(std * x, rel=4 * float(np.finfo(dtype).eps))
            kept += i in heights
        else:
            assert out[i] != pytest.approx(std * x, rel=1e-6)
    assert kept > 100
    assert tails > 1


@pytest.mark.parametrize(("dtype", "top"), [(np.float32, 24), (np.float64, 56)])
def test_the_layer_has_no_say_in_the_point_across_it(
    dtype: type[np.floating[Any]], top: int
) -> None:
    """Words that differ in their eight low bits only give the same fraction of every width."""
    layers = np.arange(LAYERS)
    out = np.empty(LAYERS, dtype)
    gaussian_into(out, 1.0, FixedWords([(0x20 << top) + layer for layer in layers.tolist()]))
    fraction = out / ziggurat().edge[:-1]
    # The narrowest layer has no safe part, so its candidate is not final.
    assert fraction[:-1] == pytest.approx(0.25, rel=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_are_as_fine_as_their_type(dtype: type[np.floating[Any]]) -> None:
    out = np.empty(100_000, dtype)
    gaussian_into(out, 1.0, NoiseSource.seeded(1))
    distinct = np.unique(out).size
    assert distinct == out.size if dtype is np.float64 else distinct > 0.98 * out.size
    assert not (out == 0).any()


@pytest.mark.parametrize("n", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_every_place_is_written_once(n: int) -> None:
    out = np.full(n, np.nan)
    gaussian_into(out, 1.0, NoiseSource.seeded(1))
    assert np.isfinite(out).all()
    assert np.unique(out).size == n


def test_a_seed_repeats_the_same_calls() -> None:
    first, second = NoiseSource.seeded(1), NoiseSource.seeded(1)
    shapes: list[int | tuple[int, ...]] = [5, (7, 3), BLOCK + 5]
    for shape in shapes:
        assert (gaussian(shape, 2.0, first) == gaussian(shape, 2.0, second)).all()


def test_shapes_and_types() -> None:
    source = NoiseSource()
    assert gaussian((), 1.0, source).shape == ()
    assert gaussian(0, 1.0, source).shape == (0,)
    assert gaussian((3, 0, 2), 1.0, source).shape == (3, 0, 2)
    assert gaussian((2, 3), 1.0, source).dtype == np.float64
    assert gaussian((2, 3), 1.0, source, np.float32).dtype == np.float32


@pytest.mark.parametrize("dtype", FLOATS)
def test_no_deviation_is_exactly_zero(dtype: type[np.floating[Any]]) -> None:
    out = np.full((3, 4), np.nan, dtype)
    gaussian_into(out, 0.0, NoiseSource())
    assert (out == 0).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_extreme_deviations_keep_their_shape(dtype: type[np.floating[Any]]) -> None:
    limits, out, unit = np.finfo(dtype), np.empty(10_000, dtype), np.empty(10_000, dtype)
    gaussian_into(unit, 1.0, NoiseSource.seeded(1))
    for std in [float(limits.max) / 100, float(limits.tiny) * 2.0**60]:
        gaussian_into(out, std, NoiseSource.seeded(1))
        assert out.astype(float) / std == pytest.approx(unit.astype(float), rel=1e-6)


@pytest.mark.parametrize("std", [-1.0, math.nan, math.inf, -0.5])
def test_impossible_deviations(std: float) -> None:
    with pytest.raises(InvalidInput, match="Expected std >= 0"):
        gaussian(3, std, NoiseSource())


@pytest.mark.parametrize("std", [1e-40, 1e38])
def test_deviations_that_float32_cannot_hold(std: float) -> None:
    with pytest.raises(InvalidInput, match="Expected std from"):
        gaussian(3, std, NoiseSource(), np.float32)
    assert np.isfinite(gaussian(3, std, NoiseSource())).all()


def test_arrays_that_cannot_be_filled() -> None:
    source, out = NoiseSource(), np.zeros((4, 4))
    for view in [out[:, ::2], out.T[:2], out[:, 1:]]:
        with pytest.raises(InvalidInput, match="contiguous"):
            gaussian_into(view, 1.0, source)
    for wrong in ["float16", "int64", "complex128", ">f8"]:
        with pytest.raises(InvalidInput, match="float32 or float64"):
            gaussian_into(np.zeros(3, wrong), 1.0, source)
    out.flags.writeable = False
    with pytest.raises(InvalidInput, match="writable"):
        gaussian_into(out, 1.0, source)
    assert (out == 0).all()
    with pytest.raises(InvalidInput, match="negative sizes"):
        gaussian((3, -1), 1.0, source)


def test_a_contiguous_view_is_filled_and_its_surroundings_are_not() -> None:
    out = np.zeros((5, 100))
    gaussian_into(out[1:3], 1.0, NoiseSource())
    assert (out[1:3] != 0).all()
    assert (out[[0, 3, 4]] == 0).all()
