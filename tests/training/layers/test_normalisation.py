"""LayerNorm, RMSNorm, GroupNorm and InstanceNorm, with and without parameters of their own."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.reference import Partition, assert_exact, few, partitions, score, seeds
from torch import nn

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "layer": (lambda: nn.LayerNorm(6), (5, 3, 6)),
    "layer, flat": (lambda: nn.LayerNorm(6), (5, 6)),
    "layer, two dimensions": (lambda: nn.LayerNorm((3, 6)), (5, 2, 3, 6)),
    "layer, no bias": (lambda: nn.LayerNorm(6, bias=False), (5, 3, 6)),
    "layer, folded": (lambda: nn.LayerNorm(6), (10, 3, 6)),
    "rms": (lambda: nn.RMSNorm(6), (5, 3, 6)),
    "rms, two dimensions": (lambda: nn.RMSNorm((3, 6), eps=1e-3), (5, 3, 6)),
    "group": (lambda: nn.GroupNorm(2, 4), (5, 4, 3)),
    "group, flat": (lambda: nn.GroupNorm(2, 4), (5, 4)),
    "group, one place": (lambda: nn.GroupNorm(1, 4), (5, 4, 1, 1)),
    "group, images": (lambda: nn.GroupNorm(4, 4), (5, 4, 2, 3)),
    "instance": (lambda: nn.InstanceNorm1d(4, affine=True), (5, 4, 3)),
    "instance, images": (lambda: nn.InstanceNorm2d(4, affine=True), (5, 4, 2, 3)),
}


@pytest.mark.parametrize("kind", LAYERS)
@few
@given(partition=partitions(5), dtype=st.sampled_from([torch.float32, torch.float64]), seed=seeds)
def test_with_parameters(kind: str, partition: Partition, dtype: torch.dtype, seed: int) -> None:
    torch.manual_seed(seed)
    make, shape = LAYERS[kind]
    layer = make().to(dtype)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(shape, dtype=dtype)
    if partition.groups is None:
        partition = Partition(torch.arange(5), 5)
    assert_exact(nn.ModuleList([layer]), lambda: score(layer(x), 5), partition)


@pytest.mark.parametrize(
    "layer",
    [
        nn.LayerNorm(6, elementwise_affine=False),
        nn.RMSNorm(6, elementwise_affine=False),
        nn.GroupNorm(2, 6, affine=False),
    ],
)
def test_without_parameters(layer: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(4, 6), layer, nn.Linear(6, 2))
    x = torch.randn(3, 4)
    assert_exact(model, lambda: score(model(x), 3), Partition(None, 3))


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_half_frozen(name: str) -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 2))
    model[1].get_parameter(name).requires_grad_(False)
    x = torch.randn(3, 2, 4)
    assert_exact(model, lambda: score(model(x), 3), Partition(None, 3))
