"""GRU with a custom backward pass, because torch's does not expose the gradients of the gates.

    r, z = sigmoid of W_ih x_t + b_ih + W_hh h_{t-1} + b_hh
    n = tanh(W_in x_t + b_in + r (W_hn h_{t-1} + b_hn)),    h_t = (1 - z) n + z h_{t-1}

The reset gate r multiplies only one of the two products, so W_ih and W_hh receive different
gradients. In padding z = 1, and the state does not change.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from sottovoce.training.layers.function import apply
from sottovoce.training.layers.recurrent import Direction, States, no_states, run_layers
from sottovoce.training.layers.registry import rule_for
from sottovoce.training.records.tape import Tape

aten = torch.ops.aten


class _GRU(Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, h_0: Tensor, anchor: Tensor, way: Direction
    ) -> tuple[Tensor, Tensor]:
        steps, sequences, _ = inputs.shape
        size = h_0.shape[-1]
        gates = functional.linear(inputs, way.weight_ih, way.bias_ih)
        if way.padding is not None:
            gates[..., size : 2 * size].masked_fill_(way.padding, math.inf)
        recurrent = way.weight_hh.t().contiguous()
        hidden = h_0.new_empty(steps + 1, sequences, size)
        products = h_0.new_empty(steps, sequences, size)
        start = steps if way.backwards else 0
        hidden[start] = h_0
        for t in way.steps(steps):
            state = hidden[way.before(t)]
            product = torch.mm(state, recurrent)
            if way.bias_hh is not None:
                product += way.bias_hh
            gates[t, :, : 2 * size].add_(product[:, : 2 * size]).sigmoid_()
            r, z, n = gates[t].chunk(3, 1)
            products[t] = product[:, 2 * size :]
            n.addcmul_(r, products[t]).tanh_()
            torch.lerp(n, state, z, out=hidden[way.after(t)])
        ctx.save_for_backward(inputs, gates, hidden, products)
        ctx.way = way
        return way.every_state_after(hidden), hidden[steps - start].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor, h_n: Tensor) -> tuple[Tensor | None, ...]:
        inputs, gates, hidden, products = ctx.saved_tensors
        way: Direction = ctx.way
        from_inputs, from_state = torch.empty_like(gates), torch.empty_like(gates)
        dh = h_n
        for t in reversed(way.steps(len(inputs))):
            dh = dh + outer[t]
            r, z, n = gates[t].chunk(3, 1)
            dr, dz, dn = from_inputs[t].chunk(3, 1)
            aten.tanh_backward.grad_input(dh - dh * z, n, grad_input=dn)
            aten.sigmoid_backward.grad_input(dh * (hidden[way.before(t)] - n), z, grad_input=dz)
            aten.sigmoid_backward.grad_input(dn * products[t], r, grad_input=dr)
            from_state[t] = from_inputs[t]
            from_state[t].chunk(3, 1)[2].mul_(r)
            dh = torch.addmm(dh * z, from_state[t], way.weight_hh)
        way.record(way.weight_ih, (way.bias_ih,), inputs, from_inputs)
        way.record(way.weight_hh, (way.bias_hh,), way.every_state_before(hidden), from_state)
        upstream = from_inputs @ way.weight_ih if ctx.needs_input_grad[0] else None
        return upstream, dh, None, None


def _run(way: Direction, steps: Tensor, states: States) -> tuple[Tensor, States]:
    outputs, final = apply(_GRU, steps, *states, way.tape.anchor, way)
    return outputs, (final,)


@rule_for(nn.GRU)
def gru_rule(
    module: nn.GRU, tape: Tape, input: Tensor | PackedSequence, hx: Tensor | None = None
) -> tuple[Any, Tensor]:
    initial = no_states(module, input) if hx is None else hx
    outputs, (final,) = run_layers(module, tape, input, (initial,), _run)
    return outputs, final
