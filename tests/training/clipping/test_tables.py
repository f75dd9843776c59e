"""Sparse gradients of large tables equal dense ones, in every step."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from sottovoce.training.batches import Piece
from sottovoce.training.clipping import totals as tables
from sottovoce.training.clipping.bookkeeping import BookKeeper
from sottovoce.training.clipping.gradients import ExactGradient, Gradient, OneByOneGradient
from sottovoce.training.clipping.styles import FlatClipping
from sottovoce.training.clipping.totals import ClippedSums, TableGradients, Tables
from sottovoce.training.edpsgd.scaling import LayerScales

ROWS, WIDTH = 12, 3


class Words(nn.Module):
    """A padded table, one that is tied to the output, and a frozen one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.padded = nn.Embedding(ROWS, WIDTH, padding_idx=0)
        self.tied = nn.Embedding(ROWS, WIDTH)
        self.fixed = nn.Embedding(ROWS, WIDTH).requires_grad_(False)
        self.output = nn.Linear(WIDTH, ROWS, bias=False)
        self.output.weight = self.tied.weight

    def forward(self, ids: Tensor) -> Tensor:
        """[examples] a loss for each."""
        hidden = self.padded(ids) + self.tied(ids) + self.fixed(ids)
        losses: Tensor = self.output(torch.tanh(hidden)).square().mean((1, 2))
        return losses


def reference(model: Words, workers: list[list[Tensor]], clip_norm: float) -> list[Tensor]:
    """Reference: one dense gradient per worker, clipped and summed."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    total = [torch.zeros_like(p) for p in parameters]
    for pieces in workers:
        loss = model(torch.cat(pieces)).mean()
        gradients = torch.autograd.grad(loss, parameters)
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        for into, gradient in zip(total, gradients, strict=True):
            into += gradient * (clip_norm / norm).clamp(max=1) / len(workers)
    return total


ids = st.lists(st.integers(0, ROWS - 1), min_size=4, max_size=4)
pieces_of_ids = st.lists(st.lists(ids, min_size=1, max_size=3), min_size=1, max_size=2)
steps = st.lists(st.lists(pieces_of_ids, min_size=1, max_size=3), min_size=1, max_size=3)


@settings(max_examples=40, deadline=None)
@given(steps, st.sampled_from([0.01, 100.0]))
def test_rows_give_the_gradient_of_the_whole_table(
    drawn: list[list[list[list[list[int]]]]], clip_norm: float
) -> None:
    model = Words()
    scales = LayerScales.ones(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "LARGE", 1)
        for step in drawn:
            workers = [[torch.tensor(piece) for piece in pieces] for pieces in step]
            gradient = OneByOneGradient(model, scales, clip_norm, len(workers), mean=True)
            expected = reference(model, workers, clip_norm)
            for _ in range(2):  # the second pass reuses the memory of the first
                gradient.begin()
                run(gradient, model, workers)
                found = gradient.finish()
                for ours, theirs in zip(found, expected, strict=True):
                    torch.testing.assert_close(ours, theirs)


def run(gradient: OneByOneGradient, model: Words, workers: list[list[Tensor]]) -> None:
    for pieces in workers:
        size = torch.tensor([sum(len(piece) for piece in pieces)])
        for number, examples in enumerate(pieces):
            closes = number == len(pieces) - 1
            piece = Piece(torch.arange(len(examples)), torch.zeros(len(examples)), size, closes)
            with gradient.piece(piece):
                gradient.backward(model(examples), piece)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(ids, min_size=1, max_size=3), min_size=1, max_size=3))
def test_exact_clipping_in_kept_memory_is_exact_clipping(drawn: list[list[list[int]]]) -> None:
    """Tied and padded tables, several pieces a step, and steps that look up other rows."""
    model = Words()
    keeper, kept = BookKeeper(model), ClippedSums(TableGradients())
    parameters = [p for p in model.parameters() if p.requires_grad]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "LARGE", 1)
        for step in (drawn, drawn[::-1], drawn[:1]):
            by_memory = []
            kept.clear()
            for sums in (ClippedSums(), kept):
                for piece in step:
                    with keeper.record():
                        keeper.backward(model(torch.tensor(piece)))
                    keeper.accumulate(torch.linspace(0.5, 1.0, len(piece)), sums)
                by_memory.append([each.clone() for each in sums.tensors(parameters)])
            torch.testing.assert_close(*by_memory)


def exact(model: nn.Module) -> ExactGradient:
    return ExactGradient(model, FlatClipping(clip_norm=1.0), 1)


def one_by_one(model: nn.Module) -> OneByOneGradient:
    return OneByOneGradient(model, LayerScales.ones(model), 1.0, 1, mean=True)


@pytest.mark.parametrize("make", [exact, one_by_one])
def test_the_kept_memory_forgets(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[nn.Module], Gradient]
) -> None:
    monkeypatch.setattr(tables, "LARGE", 1)
    model = nn.Sequential(nn.Embedding(4, 2), nn.Flatten(), nn.Linear(2, 1))
    gradient = make(model)
    touched = []
    for row in (1, 3):
        gradient.begin()
        piece = Piece(torch.tensor([0]), torch.tensor([0]), torch.tensor([1]))
        with gradient.piece(piece):
            gradient.backward(model(torch.tensor([[row]])).squeeze(1), piece)
        table = gradient.finish()[0]
        assert table.abs().sum(1).nonzero().flatten().tolist() == [row]
        touched.append(table.data_ptr())
    assert touched[0] == touched[1]


def test_only_large_plain_tables_are_taken_and_all_are_given_back() -> None:
    large, by_frequency = (
        nn.Embedding(1 << 18, 4),
        nn.Embedding(1 << 18, 4, scale_grad_by_freq=True),
    )
    small, sparse = nn.Embedding(10, 4), nn.Embedding(1 << 18, 4, sparse=True)
    model = nn.ModuleList([large, by_frequency, small, sparse])

    def flags() -> list[bool]:
        return [large.sparse, by_frequency.sparse, small.sparse, sparse.sparse]

    with Tables(model).by_rows():
        assert flags() == [True, False, False, True]
    assert flags() == [False, False, False, True]
