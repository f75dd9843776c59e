"""A computed norm may be slightly too large, never too small: clipping relies on it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training.reference import seeds
from torch import nn

from sottovoce.training.clipping.bookkeeping import BookKeeper
from sottovoce.training.records import tape

EXAMPLES, WIDTH, ROWS = 16, 64, 8


def missing(seed: int, remainder: float) -> torch.Tensor:
    """How much of the squared norm is missing, for rows that all but cancel one another.

    Every input row is the same and the gradients of half the rows are those of the other half,
    negated, up to a remainder.
    """
    torch.manual_seed(seed)
    layer = nn.Linear(WIDTH, WIDTH)
    x = torch.rand(EXAMPLES, 1, WIDTH).expand(-1, ROWS, -1).contiguous()
    half = torch.rand(EXAMPLES, ROWS // 2, WIDTH)
    gradients = torch.cat([half, -half], 1) + remainder * torch.randn(EXAMPLES, ROWS, WIDTH)
    keeper = BookKeeper(layer)
    with keeper.record():
        keeper.backward((layer(x) * gradients).sum((1, 2)))
    bias = gradients.double().sum(1)
    weight = bias.unsqueeze(2) * x[:, :1].double()
    true = weight.square().sum((1, 2)) + bias.square().sum(1)
    return true - keeper.squared_norms()


@settings(max_examples=25, deadline=None)
@given(seed=seeds, remainder=st.sampled_from([1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-1]))
def test_nothing_is_missing(seed: int, remainder: float) -> None:
    assert (missing(seed, remainder) <= 0).all()


def test_without_the_allowance_something_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "_ROUNDING", 0)
    assert any((missing(seed, 1e-4) > 0).any() for seed in range(20))
