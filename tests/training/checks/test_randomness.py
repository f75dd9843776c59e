"""Dropout that a second pass repeats for other examples, and what must not be repeated."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from sottovoce.training import Plan, PrivateTraining
from sottovoce.training.checks import neighbours, randomness
from sottovoce.training.checks.neighbours import NeighbourCheck
from sottovoce.training.checks.randomness import Draws
from sottovoce.training.errors import NeighbourCheckFailed

SIZE, WIDTH = 8, 6
X = torch.randn(SIZE, 6, WIDTH, generator=torch.Generator().manual_seed(5))
LENGTHS = torch.tensor([6, 3, 1, 2, 6, 4, 3, 5])


class Attention(nn.Module):
    """Scaled dot-product attention, which torch marks as random even where it drops nothing."""

    def __init__(self, *, dropout: float = 0.0, mixing: bool = False) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)
        self.dropout, self._mixing = nn.Dropout(dropout), mixing

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        hidden = self.dropout(self.inner(x))
        if self._mixing:
            hidden = hidden - hidden.mean(0)
        heads = hidden.view(len(x), -1, 2, WIDTH // 2).transpose(1, 2)
        allowed = mask[:, None, None]
        attended = functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=allowed)
        pooled = (attended.transpose(1, 2).flatten(2) * mask.unsqueeze(-1)).sum(1)
        scores: Tensor = self.head(pooled)
        return scores


def train(model: nn.Module) -> PrivateTraining:
    plan = Plan(population=SIZE, batch_size=SIZE, epochs=10, delta=1e-5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training = PrivateTraining(plan, model, optimizer, owners=SIZE)
    for step in training.steps():
        for batch in step:
            # Padded to the longest: half of the examples may need half of the words.
            longest = int(LENGTHS[batch].max()) if len(batch) else 1
            mask = torch.arange(longest) < LENGTHS[batch, None]
            scores = model(X[batch, :longest], mask)
            step.backward(functional.cross_entropy(scores, batch % 2, reduction="none"))
    return training


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "RARELY", 1)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_attention_with_padding_is_no_false_alarm(dropout: float) -> None:
    torch.manual_seed(0)
    assert train(Attention(dropout=dropout)).guarantee().holds


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_mixing_before_attention_is_found(dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = "sottovoce.training.clipping.bookkeeping.check_independence"
    monkeypatch.setattr(probe, lambda *_: True)
    torch.manual_seed(0)
    with pytest.raises(NeighbourCheckFailed):
        train(Attention(dropout=dropout, mixing=True))


def sums_of(model: Attention, kept: list[int], draws: Draws) -> Tensor:
    mask = torch.ones(len(kept), 6, dtype=torch.bool)
    with draws.replay(kept):
        scores: Tensor = model(X[kept], mask)
    return scores


def test_what_attention_computes_is_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeating its outputs would show the values of an earlier pass whatever goes in."""
    model, draws = Attention(), Draws(2)
    with draws.record():
        model(X[:2], torch.ones(2, 6, dtype=torch.bool))
    with torch.no_grad():
        model.inner.weight.mul_(3)
    honest = model(X[:1], torch.ones(1, 6, dtype=torch.bool))
    assert torch.allclose(sums_of(model, [0], draws), honest)

    monkeypatch.setattr(randomness, "_is_random", lambda *_: True)
    monkeypatch.setattr(randomness, "_is_free_of_values", lambda *_: True)
    replayed = Draws(2)
    with replayed.record():
        model(X[:2], torch.ones(2, 6, dtype=torch.bool))
    with torch.no_grad():
        model.inner.weight.mul_(3)
    assert not torch.allclose(sums_of(model, [0], replayed), model(X[:1], torch.ones(1, 6) > 0))


def test_numbers_drawn_with_the_parameters_of_examples_are_not_repeated() -> None:
    draws = Draws(2)
    with draws.record():
        torch.bernoulli(torch.full((2, 4), 0.5))
    assert not draws.aligned


def test_rows_go_by_example_and_padding_is_cut() -> None:
    draws = Draws(3)
    with draws.record():
        mask = torch.rand(3, 5)
    with draws.replay([2]):
        again = torch.rand(1, 4)
    assert torch.equal(again, mask[2:, :4])
    assert draws.aligned


def test_where_either_dimension_may_be_the_examples_it_says_so() -> None:
    draws = Draws(2)
    with draws.record():
        torch.rand(6, 2)
    with draws.replay([1]):
        torch.rand(3, 1)
    assert not draws.aligned


def test_without_watching_a_draw_is_noticed() -> None:
    draws = Draws(2, watch=False)
    with draws.record():
        torch.zeros(3)
    assert not draws.surprised
    with draws.replay([0]):
        torch.rand(3)
    assert draws.surprised


def test_a_layer_that_drops_without_saying_so_is_watched_from_its_first_check() -> None:
    class Quiet(Attention):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return super().forward(x, mask) * (torch.rand(len(x), 1) < 0.8)

    torch.manual_seed(0)
    model = Quiet()
    assert not neighbours._draws(model)
    training = train(model)
    assert training.guarantee().holds
    check = training._check
    assert isinstance(check, NeighbourCheck)
    assert check._draws_seen
