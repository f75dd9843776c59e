"""What a check measures and what it costs: passes, examples, sums that are sparse."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from sottovoce.training import Plan, PrivateTraining
from sottovoce.training.checks import neighbours, sensitivity
from sottovoce.training.clipping import totals
from sottovoce.training.errors import NeighbourCheckFailed
from sottovoce.training.records.records import GroupWeights, Lookup

SIZE, WORDS, CLASSES = 24, 5, 16
GENERATOR = torch.Generator().manual_seed(1)
IDS = torch.randint(0, CLASSES, (SIZE, WORDS), generator=GENERATOR)


class Tagger(nn.Module):
    """A table, and a head that may be the same table."""

    def __init__(self, *, tied: bool = False, sparse: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.table = nn.Embedding(CLASSES, 4, sparse=sparse)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(4, CLASSES, bias=False)
        if tied:
            self.head.weight = self.table.weight

    def forward(self, ids: Tensor) -> Tensor:
        scores: Tensor = self.head(self.dropout(self.table(ids)).tanh())
        return scores


def losses(model: nn.Module, batch: Tensor) -> Tensor:
    scores = model(IDS[batch]).flatten(0, 1)
    found = functional.cross_entropy(scores, IDS[batch].roll(1, 1).flatten(), reduction="none")
    return found.view(len(batch), WORDS).mean(1)


def run(model: nn.Module, steps: int) -> list[list[int]]:
    """How many examples went through the model again in each step, pass by pass."""
    plan = Plan(population=SIZE, batch_size=SIZE, epochs=steps, delta=1e-5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training = PrivateTraining(plan, model, optimizer, owners=SIZE, seed=1)
    extra = []
    for step in training.steps():
        passes = []
        for batch in step:
            step.backward(losses(model, batch))
            passes.append(len(batch))
        extra.append(passes[1:])
    assert training.guarantee().holds
    return extra


def test_the_first_check_takes_one_pass_over_the_piece_and_one_over_a_unit() -> None:
    """The training's own pass is one of the two that are compared."""
    assert run(Tagger(), 1) == [[SIZE - 1, 1]]


def test_checks_are_a_small_part_of_the_work() -> None:
    extra = run(Tagger(), 400)
    assert extra[1] in ([2, 1], [3, 1])  # weights that were zero at first are not any more
    for steps, share in ((200, 0.02), (400, 0.015)):
        handed_out = sum(sum(passes) for passes in extra[:steps])
        assert handed_out <= share * steps * SIZE
    assert any(extra[2:])  # and they never end


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("dropout", "whole"), [(0.0, 32), (0.3, 32), (0.0, 1), (0.3, 1)])
def test_large_tables_are_compared_by_rows(
    tied: bool, sparse: bool, dropout: float, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In checks of few units, and of the whole piece."""
    monkeypatch.setattr(neighbours, "RARELY", 1)
    monkeypatch.setattr(neighbours, "WHOLE", whole)
    monkeypatch.setattr(sensitivity, "LARGE", CLASSES)
    monkeypatch.setattr(totals, "LARGE", CLASSES)
    torch.manual_seed(1)
    assert all(run(Tagger(tied=tied, sparse=sparse, dropout=dropout), 12))


@pytest.mark.parametrize("large", [CLASSES, 1 << 20])
def test_a_wrong_sum_of_rows_is_found_by_a_check_of_few(
    large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is right in the first step, which is checked whole."""
    monkeypatch.setattr(totals, "LARGE", large)
    honest, calls = Lookup.weighted_rows, []

    def wrong_later(self: Lookup, weights: GroupWeights) -> tuple[Tensor, Tensor]:
        calls.append(self)
        places, rows = honest(self, weights)
        return places, rows if len(calls) <= 2 else 1.5 * rows

    monkeypatch.setattr(Lookup, "weighted_rows", wrong_later)
    torch.manual_seed(1)
    with pytest.raises(NeighbourCheckFailed, match=r"table\.weight"):
        run(Tagger(), 2)
