"""Rules registered by users: with expanded parameters, or one example at a time."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from tests.training.reference import Partition, assert_exact, few, partitions, score, seeds
from torch import Tensor, nn

from sottovoce.training.layers import expanded, find_rule, one_by_one, rule_for
from sottovoce.training.layers.registry import _RULES
from sottovoce.training.records.tape import Tape

EXAMPLES, LENGTH, TAGS = 4, 5, 3


class Chain(nn.Module):
    """The score of a sequence of tags, as a CRF has it, minus that of all sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.randn(TAGS, TAGS))
        self.start = nn.Parameter(torch.randn(TAGS))
        self.temperature = nn.Parameter(torch.tensor(1.5))

    def forward(self, emissions: Tensor, tags: Tensor) -> Tensor:
        return log_likelihood(emissions, tags, self.transitions, self.start, self.temperature)


def log_likelihood(
    emissions: Tensor, tags: Tensor, transitions: Tensor, start: Tensor, temperature: Tensor
) -> Tensor:
    """Parameters as they are, or [examples, *shape]."""
    examples = torch.arange(len(tags))
    emissions = emissions * temperature.reshape(-1, 1, 1)
    transitions = transitions.expand(len(tags), TAGS, TAGS)
    alpha = start + emissions[:, 0]
    gold = alpha.gather(1, tags[:, :1]).squeeze(1)
    for t in range(1, tags.shape[1]):
        alpha = (alpha.unsqueeze(2) + transitions).logsumexp(1) + emissions[:, t]
        gold = gold + transitions[examples, tags[:, t - 1], tags[:, t]]
        gold = gold + emissions[:, t].gather(1, tags[:, t : t + 1]).squeeze(1)
    return alpha.logsumexp(1) - gold


@pytest.fixture
def no_rule_remains() -> Iterator[None]:
    yield
    _RULES.pop(Chain, None)
    _RULES.pop(Tagger, None)


def chain_by_hand(module: Chain, tape: Tape, emissions: Tensor, tags: Tensor) -> Tensor:
    parameters = (module.transitions, module.start, module.temperature)
    return log_likelihood(emissions, tags, *(expanded(tape, p) for p in parameters))


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emit = nn.Linear(2, TAGS)
        self.chain = Chain()

    def forward(self, x: Tensor, tags: Tensor) -> Tensor:
        losses: Tensor = self.chain(self.emit(x), tags)
        return losses


@pytest.mark.usefixtures("no_rule_remains")
@few
@given(partition=partitions(EXAMPLES), seed=seeds)
def test_a_rule_by_hand(partition: Partition, seed: int) -> None:
    rule_for(Chain)(chain_by_hand)
    check(Tagger(), partition, seed)


@pytest.mark.usefixtures("no_rule_remains")
@few
@given(partition=partitions(EXAMPLES), seed=seeds)
def test_one_example_at_a_time(partition: Partition, seed: int) -> None:
    one_by_one(Chain)
    check(Tagger(), partition, seed)


@pytest.mark.usefixtures("no_rule_remains")
def test_a_whole_model_one_example_at_a_time() -> None:
    one_by_one(Tagger)
    check(Tagger(), Partition(None, EXAMPLES), 0)


@pytest.mark.usefixtures("no_rule_remains")
def test_a_frozen_parameter_beside_a_trained_one() -> None:
    rule_for(Chain)(chain_by_hand)
    model = Tagger()
    model.chain.start.requires_grad_(False)
    check(model, Partition(None, EXAMPLES), 0)


def check(model: Tagger, partition: Partition, seed: int) -> None:
    torch.manual_seed(seed)
    x, tags = torch.randn(EXAMPLES, LENGTH, 2), torch.randint(TAGS, (EXAMPLES, LENGTH))
    assert_exact(model, lambda: model(x, tags), partition)


@few
@given(partition=partitions(EXAMPLES), seed=seeds)
def test_without_a_rule_it_is_followed(partition: Partition, seed: int) -> None:
    check(Tagger(), partition, seed)


def test_a_subclass_with_another_forward_has_no_rule() -> None:
    class Doubled(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return 2 * super().forward(input)

    class Renamed(nn.Linear):
        pass

    assert find_rule(Doubled(2, 2)) is None
    assert find_rule(Renamed(2, 2)) is not None
    x = torch.randn(4, 2)
    for layer in (Doubled(2, 3), Renamed(2, 3)):
        assert_exact(layer, lambda: score(layer(x), 4), Partition(None, 4))  # noqa: B023
