"""Noise added in place: the right amount, to the right elements, once.

The distribution is tested in tests/statistical.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.privacy.noise.compiled import compiled

from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import (
    NoiseSource,
    gaussian,
    gaussian_add,
    gaussian_add_each,
    kernel,
)
from sottovoce.privacy.noise.source import BLOCK

FLOATS = [np.float32, np.float64]


@pytest.fixture(params=["kernel", "numpy"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> NoiseSource:
    """A source keyed by the operating system, with and without the compiled kernel."""
    chosen = compiled() if request.param == "kernel" else None
    monkeypatch.setattr(kernel, "load", lambda: chosen)
    return NoiseSource()


@pytest.mark.parametrize("dtype", FLOATS)
def test_adding_to_zeros_is_drawing(dtype: type[np.floating[Any]]) -> None:
    out = np.zeros(1000, dtype)
    gaussian_add(out, 3.0, NoiseSource.seeded(1))
    drawn = gaussian(1000, 1.0, NoiseSource.seeded(1), dtype) * 3
    assert (out == drawn).all()


sizes = st.lists(st.sampled_from([0, 1, 5, 1000, BLOCK - 1, BLOCK, BLOCK + 1]), max_size=6)


@given(sizes=sizes)
def test_blocks_that_are_shared_are_used_once(sizes: list[int]) -> None:
    """Arrays of any sizes get the noise of one long array, each value in one place."""
    outs = [np.full(n, i, np.float64) for i, n in enumerate(sizes)]
    stds = [float(i + 1) for i in range(len(sizes))]
    gaussian_add_each(outs, stds, NoiseSource.seeded(1))
    source, total = NoiseSource.seeded(1), sum(sizes)
    blocks = [gaussian(min(BLOCK, total - s), 1.0, source) for s in range(0, total, BLOCK)]
    values = np.concatenate([*blocks, np.empty(0)])
    for i, out in enumerate(outs):
        noise, values = values[: out.size], values[out.size :]
        assert (out == i + noise * stds[i]).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_noise_has_its_deviation_and_the_data_stay(
    source: NoiseSource, dtype: type[np.floating[Any]]
) -> None:
    outs = [np.full(shape, 100, dtype) for shape in [(300, 200), (60_000,), (60_000,)]]
    gaussian_add_each(outs, [1.0, 5.0, 1e-2], source)
    for out, std in zip(outs, [1.0, 5.0, 1e-2], strict=True):
        # Six standard errors, and the rounding of a float32 next to 100.
        assert out.std(dtype=float) == pytest.approx(std, rel=0.02)
        assert out.mean(dtype=float) == pytest.approx(100, abs=6 * std / 60_000**0.5 + 1e-6)
    correlation = np.corrcoef([out.reshape(-1) for out in outs]) - np.eye(3)
    assert np.abs(correlation).max() < 6 / 60_000**0.5


def test_types_may_be_mixed(source: NoiseSource) -> None:
    outs: list[NDArray[Any]] = [np.zeros(50, FLOATS[i % 2]) for i in range(9)]
    gaussian_add_each(outs, [1.0] * 9, source)
    values = np.concatenate(outs)
    assert values.all()
    assert np.unique(values).size > 440


def test_no_deviation_and_no_elements_add_nothing(source: NoiseSource) -> None:
    outs: list[NDArray[Any]] = [np.ones(5, np.float32), np.ones(5), np.ones((3, 0)), np.ones(())]
    gaussian_add_each(outs, [0.0, 0.0, 1.0, 1.0], source)
    assert outs[0].tolist() == outs[1].tolist() == [1.0] * 5
    assert outs[3] != 1
    gaussian_add_each([], [], source)


def test_all_or_nothing(source: NoiseSource) -> None:
    good = np.zeros(5, np.float32)
    bad: list[Callable[[], tuple[list[NDArray[Any]], list[float]]]] = [
        lambda: ([good, np.zeros(5, np.int64)], [1.0, 1.0]),
        lambda: ([good, np.zeros((5, 5))[:, 1]], [1.0, 1.0]),
        lambda: ([good, good], [1.0, -1.0]),
        lambda: ([good, good], [1.0]),
    ]
    for case in bad:
        outs, stds = case()
        with pytest.raises(InvalidInput, match="Expected"):
            gaussian_add_each(outs, stds, source)
    assert not good.any()
