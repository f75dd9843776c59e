"""Layouts and losses that mix examples without an error in shapes."""

import pytest
import torch
from tests.training.reference import score
from torch import nn

from sottovoce.errors import InvalidInput
from sottovoce.training.clipping.bookkeeping import BookKeeper


def test_time_first() -> None:
    layer, x = nn.Linear(3, 2), torch.randn(4, 4, 3)
    keeper = BookKeeper(layer)
    with keeper.record(), pytest.raises(InvalidInput, match="time first"):
        keeper.backward(score(layer(x).transpose(0, 1), 4))


def test_positions_without_a_batch_dimension() -> None:
    """Numbers made by the model are known to be no examples (see `layers.following`)."""
    table, x, places = nn.Embedding(4, 2), torch.randn(4, 4, 2), torch.arange(4)
    keeper = BookKeeper(table)
    with keeper.record(count=4), pytest.raises(InvalidInput, match="depend on that example alone"):
        keeper.backward(score(x * table(places), 4))


def test_another_order() -> None:
    layer, x = nn.Linear(3, 2), torch.randn(4, 3)
    keeper = BookKeeper(layer)
    with keeper.record(), pytest.raises(InvalidInput, match="another order"):
        keeper.backward(score(layer(x)[torch.tensor([3, 0, 1, 2])], 4))


def test_a_loss_that_compares_examples() -> None:
    model, x = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)), torch.randn(4, 3)
    keeper = BookKeeper(model)
    with keeper.record():
        outputs = model(x)
        losses = (outputs @ outputs.t()).log_softmax(1).diagonal()
        with pytest.raises(InvalidInput, match="in 0, 1"):
            keeper.backward(losses)


def test_examples_of_one_user_may_be_compared() -> None:
    layer, x = nn.Linear(3, 2), torch.randn(4, 3)
    keeper = BookKeeper(layer)
    with keeper.record(torch.tensor([0, 0, 1, 1])):
        outputs = layer(x).unflatten(0, (2, 2))
        keeper.backward((outputs * outputs.mean(1, keepdim=True)).sum(2).flatten())


def test_a_first_batch_that_shows_nothing_leaves_the_question_open() -> None:
    layer, x = nn.Linear(3, 2), torch.randn(4, 4, 3)
    keeper = BookKeeper(layer)
    with keeper.record(torch.tensor([2, 2, 2, 2])):
        keeper.backward(score(layer(x).transpose(0, 1), 4))
    with keeper.record(torch.tensor([0, 0, 2, 2])), pytest.raises(InvalidInput, match="time first"):
        keeper.backward(score(layer(x).transpose(0, 1), 4))


def test_after_a_refusal_nothing_is_kept() -> None:
    layer, x = nn.Linear(3, 2), torch.randn(4, 4, 3)
    keeper = BookKeeper(layer)
    with keeper.record(), pytest.raises(InvalidInput):
        keeper.backward(score(layer(x).transpose(0, 1), 4))
    assert layer.weight.grad is None
    with keeper.record():
        keeper.backward(score(layer(x), 4))
    keeper.accumulate(torch.ones(4))
