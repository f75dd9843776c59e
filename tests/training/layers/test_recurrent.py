"""LSTM and GRU: stacked, bidirectional, padded or packed, with or without an initial state."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.reference import Partition, assert_exact, few, partitions, score, seeds
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from sottovoce.errors import InvalidInput
from sottovoce.training.clipping.bookkeeping import BookKeeper

KINDS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
EXAMPLES, LENGTH, WIDTH, HIDDEN = 4, 5, 3, 6

networks = st.fixed_dictionaries(
    {
        "num_layers": st.integers(1, 2),
        "bidirectional": st.booleans(),
        "batch_first": st.booleans(),
        "bias": st.booleans(),
    }
)
lengths = st.lists(st.integers(1, LENGTH), min_size=EXAMPLES, max_size=EXAMPLES)


def make_inputs(layer: nn.RNNBase, dtype: torch.dtype) -> Tensor:
    shape = (EXAMPLES, LENGTH) if layer.batch_first else (LENGTH, EXAMPLES)
    return torch.randn(*shape, WIDTH, dtype=dtype)


def make_state(layer: nn.RNNBase, dtype: torch.dtype) -> Any:
    ways = layer.num_layers * (2 if layer.bidirectional else 1)
    states = tuple(torch.randn(ways, EXAMPLES, HIDDEN, dtype=dtype) for _ in range(2))
    return states if isinstance(layer, nn.LSTM) else states[0]


def pack(layer: nn.RNNBase, x: Tensor, lengths: list[int]) -> PackedSequence:
    return pack_padded_sequence(
        x, torch.tensor(lengths), batch_first=layer.batch_first, enforce_sorted=False
    )


def everything(layer: nn.RNNBase, inputs: Any, state: Any) -> list[Tensor]:
    """Outputs and last states, examples first."""
    outputs, final = layer(inputs, state)
    if isinstance(outputs, PackedSequence):
        outputs, _ = pad_packed_sequence(outputs, batch_first=True)
    elif not layer.batch_first:
        outputs = outputs.transpose(0, 1)
    finals = final if isinstance(final, tuple) else (final,)
    return [outputs, *(last.transpose(0, 1) for last in finals)]


def losses_of(layer: nn.RNNBase, inputs: Any, state: Any) -> Callable[[], Tensor]:
    return lambda: sum(
        (score(part, EXAMPLES) for part in everything(layer, inputs, state)), torch.zeros(EXAMPLES)
    )


def spelt_out(partition: Partition) -> Partition:
    """Time comes first in some of these, so the number of examples is always given."""
    return Partition(torch.arange(EXAMPLES), EXAMPLES) if partition.groups is None else partition


@pytest.mark.parametrize("kind", KINDS)
@few
@given(
    partition=partitions(EXAMPLES),
    network=networks,
    packed=st.none() | lengths,
    with_state=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=seeds,
)
def test_any_network(
    kind: str,
    partition: Partition,
    network: dict[str, Any],
    packed: list[int] | None,
    with_state: bool,
    dtype: torch.dtype,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    layer = KINDS[kind](WIDTH, HIDDEN, dtype=dtype, **network)
    x = make_inputs(layer, dtype)
    inputs = x if packed is None else pack(layer, x, packed)
    state = make_state(layer, dtype) if with_state else None
    assert_exact(layer, losses_of(layer, inputs, state), spelt_out(partition))


@pytest.mark.parametrize("kind", KINDS)
@few
@given(network=networks, packed=st.none() | lengths, with_state=st.booleans(), seed=seeds)
def test_same_values_and_input_gradients_as_torch(
    kind: str, network: dict[str, Any], packed: list[int] | None, with_state: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    layer = KINDS[kind](WIDTH, HIDDEN, **network)
    x = make_inputs(layer, torch.float32).requires_grad_()
    state = make_state(layer, torch.float32) if with_state else None
    before = [s.requires_grad_() for s in ((state,) if isinstance(state, Tensor) else state or ())]
    keeper = BookKeeper(layer)

    def run() -> list[Tensor]:
        parts = everything(layer, x if packed is None else pack(layer, x, packed), state)
        wanted = (x, *before)
        total = torch.stack([score(part, EXAMPLES).sum() for part in parts]).sum()
        return [*parts, *torch.autograd.grad(total, wanted)]

    plain = run()
    with keeper.record(count=EXAMPLES):
        recorded = run()
    for expected, actual in zip(plain, recorded, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@few
@given(partition=partitions(EXAMPLES), seed=seeds)
def test_wide_enough_to_stay_in_factors(kind: str, partition: Partition, seed: int) -> None:
    torch.manual_seed(seed)
    layer = KINDS[kind](40, 24, bidirectional=True, batch_first=True).double()
    x = torch.randn(EXAMPLES, 3, 40, dtype=torch.float64)
    assert_exact(layer, lambda: score(layer(x)[0], EXAMPLES), partition)


@pytest.mark.parametrize("kind", KINDS)
def test_words_folded_into_the_batch(kind: str) -> None:
    layer = KINDS[kind](WIDTH, HIDDEN, bidirectional=True, batch_first=True)
    letters = torch.randn(2 * 3, LENGTH, WIDTH)
    assert_exact(
        nn.ModuleList([layer]),
        lambda: score(layer(letters)[0][:, -1], 2),
        Partition(torch.arange(2), 2),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_half_frozen(kind: str) -> None:
    layer = KINDS[kind](WIDTH, HIDDEN, batch_first=True)
    layer.weight_hh_l0.requires_grad_(False)
    layer.bias_ih_l0.requires_grad_(False)
    x = torch.randn(EXAMPLES, LENGTH, WIDTH)
    assert_exact(layer, lambda: score(layer(x)[0], EXAMPLES), Partition(None, EXAMPLES))


def test_dropout_between_layers_is_that_of_training() -> None:
    layer = nn.LSTM(WIDTH, HIDDEN, num_layers=2, dropout=0.5, batch_first=True)
    x = torch.randn(EXAMPLES, LENGTH, WIDTH)
    keeper = BookKeeper(layer)
    with keeper.record():
        assert not torch.equal(layer(x)[0], layer(x)[0])
        layer.eval()
        torch.testing.assert_close(layer(x)[0], layer(x)[0])


PLAIN = [
    lambda: nn.RNN(WIDTH, HIDDEN, num_layers=2, bidirectional=True, batch_first=True),
    lambda: nn.RNN(WIDTH, HIDDEN, nonlinearity="relu", bias=False, batch_first=True),
    lambda: nn.LSTM(WIDTH, HIDDEN, proj_size=2, num_layers=2, bidirectional=True, batch_first=True),
]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("make", PLAIN)
@pytest.mark.parametrize("packed", [False, True])
def test_rnn_and_projections(make: Callable[[], nn.RNNBase], packed: bool) -> None:
    torch.manual_seed(0)
    layer, x = make(), torch.randn(4, 5, WIDTH)
    lengths = torch.tensor([3, 5, 1, 4])

    def losses() -> Tensor:
        if not packed:
            return score(layer(x)[0], 4)
        inputs = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        outputs, states = layer(inputs)
        last = states[0] if isinstance(states, tuple) else states
        found = pad_packed_sequence(outputs, batch_first=True)[0]
        return score(found, 4) + score(last.transpose(0, 1), 4)

    assert_exact(layer, losses, Partition(torch.tensor([0, 1, 1, 2]), 3))


class Loop(nn.Module):
    """A cell called once a step."""

    def __init__(self, kind: type[nn.RNNCellBase]) -> None:
        super().__init__()
        self.cell = kind(WIDTH, HIDDEN)  # type: ignore[call-arg]

    def forward(self, x: Tensor) -> Tensor:
        state, outputs = None, []
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(outputs, 1)


@pytest.mark.parametrize("kind", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_cells(kind: type[nn.RNNCellBase]) -> None:
    torch.manual_seed(0)
    model, x = Loop(kind), torch.randn(4, 5, WIDTH)
    assert_exact(model, lambda: score(model(x), 4), Partition(torch.tensor([0, 1, 1, 2]), 3))


def test_a_single_sequence_needs_a_batch_dimension() -> None:
    layer = nn.GRU(3, 6)
    with BookKeeper(layer).record(count=4), pytest.raises(InvalidInput, match="three dimensions"):
        layer(torch.randn(4, 3))
