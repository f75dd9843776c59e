"""Products by oneDNN: the same numbers as torch.mm, and refused where they are not."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from sottovoce.training.clipping.bookkeeping import BookKeeper
from sottovoce.training.kernel import backends
from sottovoce.training.kernel.backends import Backends, Repeated, times

onednn = pytest.mark.skipif(not backends._has_onednn(), reason="torch was built without oneDNN")


@contextmanager
def fresh(monkeypatch: pytest.MonkeyPatch, margin: float) -> Iterator[Backends]:
    """Nothing chosen yet, every product raced; a large margin lets oneDNN win."""
    mine = Backends()
    monkeypatch.setattr(backends, "backends", mine)
    monkeypatch.setattr(backends, "LEAST", 1)
    monkeypatch.setattr(backends, "MARGIN", margin)
    with mine.racing():
        yield mine


def wrong(x: Tensor, transposed: Tensor, added: Tensor | None) -> Tensor:
    return torch.mm(x, transposed.to_dense().t()) * 1.001


@onednn
@pytest.mark.parametrize("shape", [(1, 3, 5), (7, 8, 9), (300, 40, 24), (16, 1100, 8)])
@pytest.mark.parametrize("strided", [False, True])
def test_products_are_those_of_torch(
    shape: tuple[int, int, int], strided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    rows, terms, columns = shape
    x, matrix, added = torch.randn(rows, terms), torch.randn(terms, columns), torch.randn(columns)
    if strided:
        x, matrix = x.t().contiguous().t(), matrix.t().contiguous().t()
    expected = x @ matrix
    with fresh(monkeypatch, margin=1e9) as chosen:
        assert chosen.onednn_for(x, matrix)
        torch.testing.assert_close(times(x, matrix), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(times(x, matrix, added), expected + added, rtol=1e-4, atol=1e-4)
        repeated = Repeated(matrix, rows, 10)
        assert repeated._packed is not None
        torch.testing.assert_close(repeated.of(x), expected, rtol=1e-4, atol=1e-4)
        total = torch.ones(rows, columns)
        repeated.add_to(total, x)
        torch.testing.assert_close(total, expected + 1, rtol=1e-4, atol=1e-4)


@onednn
@pytest.mark.parametrize("kind", ["linear", "lstm", "in place"])
def test_gradients_and_norms_by_either(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    layer: nn.Module = nn.LSTM(6, 10, 2, batch_first=True)
    if kind != "lstm":
        after = nn.ReLU(inplace=True) if kind == "in place" else nn.Identity()
        layer = nn.Sequential(nn.Linear(6, 10), after)
    x = torch.randn(5, 8, 6)
    found = []
    for margin in (1e9, 0.0):
        with fresh(monkeypatch, margin) as chosen:
            keeper = BookKeeper(layer)
            with keeper.record():
                out = layer(x)
                out = out[0] if kind == "lstm" else out
                keeper.backward((out * torch.arange(10)).sum((1, 2)))
            norms = keeper.squared_norms()
            layer.zero_grad(set_to_none=True)
            keeper.accumulate(torch.linspace(0.1, 1, 5))
            found.append([norms, *(p.grad for p in layer.parameters() if p.grad is not None)])
            assert any(chosen._chosen.values()) == (margin > 0)
    for by_onednn, by_torch in zip(*found, strict=True):
        torch.testing.assert_close(by_onednn, by_torch, rtol=1e-4, atol=1e-4)


@onednn
@pytest.mark.parametrize("packed", [False, True])
def test_wrong_products_are_refused_for_ever(packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "by_onednn", wrong)
    x, matrix = torch.randn(8, 8), torch.randn(8, 8)
    with fresh(monkeypatch, margin=1e9) as chosen:
        assert not chosen.onednn_for(x, matrix, packed=packed)
        monkeypatch.undo()
        assert not chosen.onednn_for(x, matrix, packed=packed)


def test_without_a_race_torch_computes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "by_onednn", wrong)
    monkeypatch.setattr(backends, "LEAST", 1)
    x, matrix = torch.randn(8, 8), torch.randn(8, 8)
    assert torch.equal(times(x, matrix), x @ matrix)
    assert torch.equal(Repeated(matrix, 8, 10).of(x), x @ matrix)


@onednn
@pytest.mark.parametrize("x", [torch.randn(8, 8).double(), torch.randn(8, 8).bfloat16()])
def test_other_precisions_are_left_to_torch(x: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    with fresh(monkeypatch, margin=1e9) as chosen:
        assert not chosen.onednn_for(x, x)
        assert torch.equal(times(x, x), x @ x)


@onednn
def test_numbers_that_tell_nothing_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = torch.randn(8, 8)
    with fresh(monkeypatch, margin=1e9) as chosen:
        for number in (0.0, torch.nan, torch.inf):
            assert not chosen.onednn_for(torch.full((8, 8), number), matrix)
        assert chosen.onednn_for(torch.randn(8, 8), matrix)
