"""Recurrent layers without a backward pass of their own: RNN, projected LSTM, and single cells.

A layer gives every example a copy of its recurrent weights, and autograd adds up the gradients of
all steps in it. A cell is two linear layers, recorded at each call.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from sottovoce.training.layers.linear import linear
from sottovoce.training.layers.per_example import copies
from sottovoce.training.layers.recurrent import (
    Direction,
    States,
    lstm_rule,
    no_states,
    run_layers,
)
from sottovoce.training.layers.registry import rule_for
from sottovoce.training.records.tape import Tape


def _rnn_step(nonlinearity: str, gates: Tensor, states: States) -> States:  # noqa: ARG001
    return (gates.tanh() if nonlinearity == "tanh" else gates.relu(),)


def _lstm_step(gates: Tensor, states: States) -> States:
    i, f, g, o = gates.chunk(4, -1)
    cell = f.sigmoid() * states[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def _gru_step(from_input: Tensor, from_state: Tensor, states: States) -> States:
    (r, z, n), (hr, hz, hn) = from_input.chunk(3, -1), from_state.chunk(3, -1)
    keep = (z + hz).sigmoid()
    new = (n + (r + hr).sigmoid() * hn).tanh()
    return ((1 - keep) * new + keep * states[0],)


def _own(tape: Tape, weight: Tensor | None, sequences: int) -> Tensor | None:
    """A copy of a weight for every sequence."""
    if weight is None or not weight.requires_grad:
        return None if weight is None else weight.expand(sequences, *weight.shape)
    return copies(tape, weight, (sequences, *weight.shape))


def _run(
    way: Direction, steps: Tensor, states: States, *, step: Any, projections: dict[int, Tensor]
) -> tuple[Tensor, States]:
    sequences = steps.shape[1]
    gates = linear(way.tape, steps.transpose(0, 1), way.weight_ih, way.bias_ih).transpose(0, 1)
    weight, bias = _own(way.tape, way.weight_hh, sequences), _own(way.tape, way.bias_hh, sequences)
    projection = _own(way.tape, projections.get(id(way.weight_ih)), sequences)
    assert weight is not None
    outputs: dict[int, Tensor] = {}
    for t in way.steps(len(steps)):
        total = gates[t] + torch.bmm(weight, states[0].unsqueeze(2)).squeeze(2)
        hidden, *rest = step(total if bias is None else total + bias, states)
        if projection is not None:
            hidden = torch.bmm(projection, hidden.unsqueeze(2)).squeeze(2)
        after = hidden, *rest
        if way.padding is not None:
            after = tuple(map(partial(torch.where, way.padding[t]), states, after))
        outputs[t], states = after[0], after
    return torch.stack([outputs[t] for t in range(len(steps))]), states


@rule_for(nn.RNN)
def rnn_rule(
    module: nn.RNN, tape: Tape, input: Tensor | PackedSequence, hx: Tensor | None = None
) -> tuple[Any, Tensor]:
    initial = no_states(module, input) if hx is None else hx
    run = partial(_run, step=partial(_rnn_step, module.nonlinearity), projections={})
    outputs, (final,) = run_layers(module, tape, input, (initial,), run)
    return outputs, final


@rule_for(nn.LSTM)
def any_lstm_rule(
    module: nn.LSTM,
    tape: Tape,
    input: Tensor | PackedSequence,
    hx: tuple[Tensor, Tensor] | None = None,
) -> tuple[Any, tuple[Tensor, ...]]:
    if not module.proj_size:
        return lstm_rule(module, tape, input, hx)
    cell = no_states(module, input)
    states = (cell[..., : module.proj_size], cell) if hx is None else hx
    ends = [
        f"l{layer}{way}"
        for layer in range(module.num_layers)
        for way in (("", "_reverse") if module.bidirectional else ("",))
    ]
    projections = {
        id(getattr(module, f"weight_ih_{end}")): getattr(module, f"weight_hr_{end}") for end in ends
    }
    return run_layers(
        module, tape, input, states, partial(_run, step=_lstm_step, projections=projections)
    )


def _products(
    module: nn.RNNCellBase, tape: Tape, input: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    return (
        linear(tape, input, module.weight_ih, module.bias_ih),
        linear(tape, state, module.weight_hh, module.bias_hh),
    )


def _nothing(module: nn.RNNCellBase, input: Tensor) -> Tensor:
    return input.new_zeros(len(input), module.hidden_size)


@rule_for(nn.RNNCell)
def rnn_cell_rule(
    module: nn.RNNCell, tape: Tape, input: Tensor, hx: Tensor | None = None
) -> Tensor:
    state = _nothing(module, input) if hx is None else hx
    total = sum(_products(module, tape, input, state))
    return _rnn_step(module.nonlinearity, total, (state,))[0]  # type: ignore[arg-type]


@rule_for(nn.GRUCell)
def gru_cell_rule(
    module: nn.GRUCell, tape: Tape, input: Tensor, hx: Tensor | None = None
) -> Tensor:
    state = _nothing(module, input) if hx is None else hx
    return _gru_step(*_products(module, tape, input, state), (state,))[0]


@rule_for(nn.LSTMCell)
def lstm_cell_rule(
    module: nn.LSTMCell, tape: Tape, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
) -> States:
    states = (_nothing(module, input),) * 2 if hx is None else hx
    total = sum(_products(module, tape, input, states[0]))
    return _lstm_step(total, states)  # type: ignore[arg-type]
