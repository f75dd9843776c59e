"""Linear layers on any leading dimensions, folded or not, trained in whole or in part."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.reference import Partition, assert_exact, few, partitions, score, seeds
from torch import nn

shapes = st.sampled_from([(), (1,), (3,), (2, 3), (9,)])


@few
@given(
    partition=partitions(5),
    inner=shapes,
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    bias=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=seeds,
)
def test_any_shape(
    partition: Partition,
    inner: tuple[int, ...],
    sizes: tuple[int, int],
    bias: bool,
    dtype: torch.dtype,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    layer = nn.Linear(*sizes, bias=bias, dtype=dtype)
    x = torch.randn(5, *inner, sizes[0], dtype=dtype)
    assert_exact(layer, lambda: score(layer(x), 5), partition)


@few
@given(partition=partitions(4), seed=seeds)
def test_wide_layers_are_never_formed(partition: Partition, seed: int) -> None:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(40, 50), nn.Tanh(), nn.Linear(50, 40)).double()
    x = torch.randn(4, 3, 40, dtype=torch.float64)
    assert_exact(model, lambda: score(model(x), 4), partition)


@few
@given(partition=partitions(4), bias=st.booleans(), seed=seeds)
def test_outputs_in_memory_of_their_own_that_are_changed_in_place(
    partition: Partition, bias: bool, seed: int
) -> None:
    """Outputs of 64 KB and more can be changed in place, like those of a plain layer."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 3000, bias), nn.ReLU(inplace=True), nn.Linear(3000, 2, bias))
    x = torch.randn(4, 3, 6)
    assert_exact(model, lambda: score(model(x), 4), partition)


@few
@given(partition=partitions(4), seed=seeds)
def test_rows_folded_into_the_batch(partition: Partition, seed: int) -> None:
    torch.manual_seed(seed)
    layer = nn.Linear(6, 7)
    x = torch.randn(4, 3, 6)
    assert_exact(
        nn.ModuleList([layer]),
        lambda: score(layer(x.flatten(0, 1)), 4),
        Partition(torch.arange(4), 4) if partition.groups is None else partition,
    )


@few
@given(partition=partitions(4), frozen=st.sampled_from(["weight", "bias"]), seed=seeds)
def test_one_half_frozen(partition: Partition, frozen: str, seed: int) -> None:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 20), nn.Tanh(), nn.Linear(20, 5), nn.Tanh(), nn.Linear(5, 2))
    model[2].get_parameter(frozen).requires_grad_(False)
    model[4].requires_grad_(False)
    x = torch.randn(4, 3, 3)
    assert_exact(model, lambda: score(model(x), 4), partition)


@few
@given(partition=partitions(4), seed=seeds)
def test_called_twice(partition: Partition, seed: int) -> None:
    """The norm is that of the sum of both uses, weight and bias."""
    torch.manual_seed(seed)
    for width, words in ((5, 4), (30, 2)):
        layer = nn.Linear(width, width).double()
        x = torch.randn(4, words, width, dtype=torch.float64)
        assert_exact(layer, lambda: score(layer(layer(x).tanh()), 4), partition)  # noqa: B023


@few
@given(partition=partitions(4), seed=seeds)
def test_tied_between_two_layers(partition: Partition, seed: int) -> None:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh()).double()
    model[2].weight = model[0].weight
    x, y = torch.randn(4, 2, 20, dtype=torch.float64), torch.randn(4, 20, dtype=torch.float64)
    assert_exact(model, lambda: score(model(x), 4) + score(model[2](y), 4), partition)


def test_an_input_for_all_examples_alike_is_expanded() -> None:
    layer = nn.Linear(3, 2)
    shared, x = torch.randn(1, 4, 3), torch.randn(5, 4, 2)
    assert_exact(
        nn.ModuleList([layer]),
        lambda: score(layer(shared) * x, 5),
        Partition(torch.arange(5), 5),
    )


def test_norms_of_bfloat16_are_float32() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(30, 30, dtype=torch.bfloat16)
    x = torch.randn(4, 3, 30, dtype=torch.bfloat16)
    assert_exact(layer, lambda: score(layer(x), 4), Partition(None, 4), tolerance=2e-2)
