"""Reference implementation: one backward pass per group, compared with book-keeping."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor, nn

from sottovoce.training.clipping.bookkeeping import BookKeeper

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
# Every example builds a model and runs it a few times; shapes are small and soon exhausted.
few = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**31 - 1)


@dataclass(frozen=True)
class Partition:
    """Groups for `BookKeeper.record`; None: every example is its own group."""

    groups: Tensor | None
    count: int

    def members(self, group: int) -> Tensor:
        return (
            torch.tensor([group]) if self.groups is None else (self.groups == group).nonzero()[:, 0]
        )


def partitions(examples: int) -> st.SearchStrategy[Partition]:
    """Singletons, micro-batches, users of random sizes, one group of everything, empty groups."""
    users = st.lists(st.integers(0, 4), min_size=examples, max_size=examples)
    return st.one_of(
        st.just(Partition(None, examples)),
        st.just(Partition(torch.arange(examples) // 2, (examples + 1) // 2)),
        st.just(Partition(torch.zeros(examples, dtype=torch.int64), 1)),
        users.map(lambda labels: Partition(torch.tensor(labels, dtype=torch.int64), 6)),
    )


def assert_exact(
    model: nn.Module,
    losses: Callable[[], Tensor],
    partition: Partition,
    tolerance: float | None = None,
) -> None:
    """Norms by layer and weighted sums, flat and by layer, equal those of the reference."""
    keeper = BookKeeper(model)
    gradients = loop_over_groups(model, losses, partition)
    if tolerance is None:
        tolerance = TOLERANCE[next(iter(gradients.values())).dtype]
    layers = len(keeper.layer_names)
    norms = torch.zeros(layers, partition.count, dtype=torch.float64)
    for name, gradient in gradients.items():
        norms[layer_of(keeper, name)] += (
            gradient.double().reshape(partition.count, -1).square().sum(1)
        )
    flat, by_layer = torch.rand(partition.count), torch.rand(layers, partition.count)
    for weights in (flat, by_layer):
        model.zero_grad()
        with keeper.record(
            partition.groups, partition.count if partition.groups is not None else None
        ):
            keeper.backward(losses())
        assert_close(keeper.squared_norms_by_layer(), norms, tolerance)
        assert_close(keeper.squared_norms(), norms.sum(0), tolerance)
        keeper.accumulate(weights)
        for name, parameter in trainable(model).items():
            factors = weights if weights.dim() == 1 else weights[layer_of(keeper, name)]
            expected = torch.tensordot(factors.to(gradients[name].dtype), gradients[name], 1)
            assert parameter.grad is not None
            assert_close(parameter.grad, expected, tolerance)


def loop_over_groups(
    model: nn.Module, losses: Callable[[], Tensor], partition: Partition
) -> dict[str, Tensor]:
    """[count, *shape] the gradient of every group, by parameter name."""
    rows: dict[str, list[Tensor]] = {name: [] for name in trainable(model)}
    for group in range(partition.count):
        model.zero_grad()
        losses()[partition.members(group)].sum().backward()  # type: ignore[no-untyped-call]
        for name, parameter in trainable(model).items():
            zeros = torch.zeros_like(parameter)
            rows[name].append(zeros if parameter.grad is None else parameter.grad.clone())
    model.zero_grad()
    return {name: torch.stack(gradients) for name, gradients in rows.items()}


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def layer_of(keeper: BookKeeper, name: str) -> int:
    return keeper.layer_names.index(name.rpartition(".")[0])


def assert_close(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    """Relative to the largest number; much smaller ones may be rounding errors."""
    assert actual.shape == expected.shape
    scale = expected.abs().max().clamp(min=1e-3) if expected.numel() else torch.ones(())
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=0, atol=tolerance * float(scale)
    )


class Scored(nn.Module):
    """One loss per example from any layer output, with random weights."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def losses(self, examples: int, *inputs: Tensor | None) -> Tensor:
        outputs = self.layer(*inputs)
        outputs = outputs[0] if isinstance(outputs, tuple) else outputs
        return score(outputs, examples)


def score(outputs: Tensor, examples: int) -> Tensor:
    """A smooth loss that weights every number differently, so that all gradients differ."""
    flat = outputs.reshape(examples, outputs.numel() // examples if examples else 0)
    factors = torch.linspace(-1, 2, flat.shape[1], dtype=flat.dtype)
    return (flat.sin() * factors).sum(1)
