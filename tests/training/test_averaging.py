"""The mean of the last weights."""

import pytest
import torch
from torch import nn

from sottovoce.errors import InvalidInput
from sottovoce.training.checkpoint import TailAverage


def test_the_mean_begins_at_its_start_and_survives_a_checkpoint() -> None:
    torch.manual_seed(0)
    values = torch.randn(7, 3)
    weight = nn.Parameter(torch.zeros(3))
    frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    average = TailAverage([weight, frozen], start=2)
    for step, value in enumerate(values):
        weight.data.copy_(value)
        if step == 4:  # as a resumed run does
            state = average.state_dict()
            average = TailAverage([weight, frozen], start=2)
            average.load_state_dict(state)
        average.add(step)
    average.put_in_place()
    assert average.count == 5
    assert weight.detach().tolist() == pytest.approx(values[2:].mean(0).tolist(), abs=1e-6)
    assert frozen.tolist() == [1, 1]


def test_without_a_step_the_weights_stay() -> None:
    weight = nn.Parameter(torch.ones(3))
    average = TailAverage([weight], start=5)
    average.add(0)
    average.put_in_place()
    assert weight.tolist() == [1, 1, 1]


def test_another_models_average_is_refused() -> None:
    small = TailAverage([nn.Parameter(torch.ones(3))], start=0)
    large = TailAverage([nn.Parameter(torch.ones(4))], start=0)
    large.add(0)
    with pytest.raises(InvalidInput, match="another model"):
        small.load_state_dict(large.state_dict())
