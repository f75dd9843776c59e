"""Convolutions of every geometry, over sequences, images and words folded into the batch."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.reference import Partition, assert_exact, few, partitions, score, seeds
from torch import nn

geometries = st.fixed_dictionaries(
    {
        "stride": st.integers(1, 2),
        "padding": st.integers(0, 2),
        "dilation": st.integers(1, 2),
        "groups": st.sampled_from([1, 2]),
        "bias": st.booleans(),
        "padding_mode": st.sampled_from(["zeros", "replicate"]),
    }
)


@pytest.mark.parametrize("dimensions", [1, 2])
@few
@given(
    partition=partitions(3),
    geometry=geometries,
    kernel=st.integers(1, 3),
    fold=st.sampled_from([1, 2]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=seeds,
)
def test_any_geometry(
    dimensions: int,
    partition: Partition,
    geometry: dict[str, Any],
    kernel: int,
    fold: int,
    dtype: torch.dtype,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    kind = nn.Conv1d if dimensions == 1 else nn.Conv2d
    layer = kind(4, 6, kernel, dtype=dtype, **geometry)
    x = torch.randn(3 * fold, 4, *(7, 6)[:dimensions], dtype=dtype)
    if partition.groups is None:
        partition = Partition(torch.arange(3), 3)
    assert_exact(nn.ModuleList([layer]), lambda: score(layer(x), 3), partition)


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_padding_by_name(padding: str) -> None:
    layer = nn.Conv1d(3, 4, 3, padding=padding, dilation=2)
    x = torch.randn(2, 3, 9)
    assert_exact(layer, lambda: score(layer(x), 2), Partition(None, 2))


def test_many_channels_at_few_positions() -> None:
    """The patches are kept, not the gradients."""
    model = nn.Sequential(nn.Conv2d(30, 40, 3, padding=1), nn.Tanh(), nn.Conv2d(40, 30, 2)).double()
    x = torch.randn(3, 30, 2, 2, dtype=torch.float64)
    assert_exact(model, lambda: score(model(x), 3), Partition(None, 3))


def test_a_transposed_input() -> None:
    layer = nn.Conv1d(3, 4, 3)
    x = torch.randn(2, 9, 3).transpose(1, 2)
    assert_exact(layer, lambda: score(layer(x), 2), Partition(None, 2))
