"""Linear layers, y = W x + c, with any leading dimensions; the first one is the examples."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sottovoce.training.layers.function import apply, empty_output
from sottovoce.training.layers.registry import rule_for
from sottovoce.training.records.tape import Tape, record_outer_product


class _Linear(Function):
    """Parameters are passed in a tuple, which hides them from autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        anchor: Tensor,
        tape: Tape,
        parameters: tuple[Tensor, Tensor | None],
    ) -> Tensor:
        ctx.save_for_backward(inputs)
        ctx.tape, (ctx.weight, ctx.bias) = tape, parameters
        return _times(inputs, ctx.weight.t(), ctx.bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        (inputs,) = ctx.saved_tensors
        gradients = gradients.contiguous()
        tape: Tape = ctx.tape
        rows = tape.rows(inputs), tape.rows(gradients)
        record_outer_product(tape, ctx.weight, (ctx.bias,), *rows)
        upstream = _times(gradients, ctx.weight) if ctx.needs_input_grad[0] else None
        return upstream, None, None, None


def _times(x: Tensor, matrix: Tensor, added: Tensor | None = None) -> Tensor:
    """x @ matrix + added, on the last dimension of x."""
    out = empty_output((*x.shape[:-1], matrix.shape[1]), like=x)
    rows, into = x.flatten(0, -2), out.flatten(0, -2)
    if added is None:
        torch.mm(rows, matrix, out=into)
    else:
        torch.addmm(added, rows, matrix, out=into)
    return out


def linear(tape: Tape, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`functional.linear`, recorded."""
    outputs: Tensor = apply(_Linear, tape.batched(inputs), tape.anchor, tape, (weight, bias))
    return outputs


@rule_for(nn.Linear, covers=("weight", "bias"))
def linear_rule(module: nn.Linear, tape: Tape, input: Tensor) -> Tensor:
    return linear(tape, input, module.weight, module.bias)
