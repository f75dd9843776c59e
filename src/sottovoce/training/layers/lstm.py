"""LSTM with a custom backward pass, because torch's does not expose the gradients of the gates.

    i, f, o = sigmoid, g = tanh of W_ih x_t + b_ih + W_hh h_{t-1} + b_hh
    c_t = f c_{t-1} + i g,    h_t = o tanh(c_t)

All steps of one direction are rows of W_ih (inputs x_t) and of W_hh (inputs h_{t-1}), with the same
gradient: that of the gates before activation. In padding i = o = 0 and f = 1, so that c does not
change; h is copied.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from sottovoce.training.kernel.lstm import backward_steps, forward_steps
from sottovoce.training.layers.function import apply
from sottovoce.training.layers.recurrent import Direction, States, no_states, run_layers
from sottovoce.training.layers.registry import rule_for
from sottovoce.training.records.tape import Tape


class _LSTM(Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, h_0: Tensor, c_0: Tensor, anchor: Tensor, way: Direction
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, sequences, _ = inputs.shape
        size = h_0.shape[-1]
        gates = functional.linear(inputs, way.weight_ih, _sum(way.bias_ih, way.bias_hh))
        if way.padding is not None:
            i, f, _, o = gates.chunk(4, -1)
            for gate, value in (i, -math.inf), (f, math.inf), (o, -math.inf):
                gate.masked_fill_(way.padding, value)
            carried = way.padding.to(gates.dtype)
        recurrent = way.weight_hh.t()
        hidden = h_0.new_empty(steps + 1, sequences, size)
        cells = torch.empty_like(hidden)
        squashed = h_0.new_empty(steps, sequences, size)
        start = steps if way.backwards else 0
        hidden[start], cells[start] = h_0, c_0
        make_step = forward_steps(gates, hidden, cells, squashed)
        for t in way.steps(steps):
            before, after = way.before(t), way.after(t)
            gates[t].addmm_(hidden[before], recurrent)
            make_step(t, before, after)
            if way.padding is not None:
                hidden[after].addcmul_(carried[t], hidden[before])
        ctx.save_for_backward(inputs, gates, hidden, cells, squashed)
        ctx.way = way
        end = steps - start
        return way.every_state_after(hidden), hidden[end].clone(), cells[end].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor, h_n: Tensor, c_n: Tensor) -> tuple[Tensor | None, ...]:
        inputs, gates, hidden, cells, squashed = ctx.saved_tensors
        way: Direction = ctx.way
        carried = None if way.padding is None else way.padding.to(gates.dtype)
        gradients = torch.empty_like(gates)
        dh, dc = (x.clone(memory_format=torch.contiguous_format) for x in (h_n, c_n))
        make_step = backward_steps(gates, cells, squashed, outer, gradients)
        for t in reversed(way.steps(len(inputs))):
            make_step(t, way.before(t), dh, dc)
            later, dh = dh, torch.mm(gradients[t], way.weight_hh)
            if carried is not None:
                dh.addcmul_(carried[t], later)
        way.record(way.weight_ih, (way.bias_ih, way.bias_hh), inputs, gradients)
        way.record(way.weight_hh, (), way.every_state_before(hidden), gradients)
        upstream = gradients @ way.weight_ih if ctx.needs_input_grad[0] else None
        return upstream, dh, dc, None, None


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return None if first is None or second is None else first + second


def _run(way: Direction, steps: Tensor, states: States) -> tuple[Tensor, States]:
    outputs, *final = apply(_LSTM, steps, *states, way.tape.anchor, way)
    return outputs, tuple(final)


def _refuse(module: nn.LSTM) -> str | None:
    return "LSTM with proj_size is not supported: set it to 0" if module.proj_size else None


@rule_for(nn.LSTM, refuse=_refuse)
def lstm_rule(
    module: nn.LSTM,
    tape: Tape,
    input: Tensor | PackedSequence,
    hx: tuple[Tensor, Tensor] | None = None,
) -> tuple[Any, tuple[Tensor, ...]]:
    states = (no_states(module, input),) * 2 if hx is None else hx
    return run_layers(module, tape, input, states, _run)
