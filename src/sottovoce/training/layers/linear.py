"""Linear layers and embeddings, and the functions that record them."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from sottovoce.training.kernel.backends import times
from sottovoce.training.layers.registry import apply, empty_output, rule_for
from sottovoce.training.records.tape import Tape, record_lookup, record_outer_product


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
    shape = (*x.shape[:-1], matrix.shape[1])
    product = times(
        x.flatten(0, -2), matrix, added, lambda: empty_output(shape, like=x).flatten(0, -2)
    )
    # Not a view for autograd, so that it may be changed in place.
    outputs: Tensor = torch.ops.aten._unsafe_view(product, shape)
    return outputs


def linear(tape: Tape, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`functional.linear`, recorded: y = W x + c, with any leading dimensions.

    The first dimension is the examples.
    """
    outputs: Tensor = apply(_Linear, tape.batched(inputs), tape.anchor, tape, (weight, bias))
    return outputs


@rule_for(nn.Linear, covers=("weight", "bias"))
def linear_rule(module: nn.Linear, tape: Tape, input: Tensor) -> Tensor:
    return linear(tape, input, module.weight, module.bias)


class _Lookup(Function):
    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, tape: Tape, ids: Tensor, table: tuple[Tensor, int | None]
    ) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.tape, (ctx.table, ctx.padding_idx) = tape, table
        return functional.embedding(ids, ctx.table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[None, ...]:
        (ids,) = ctx.saved_tensors
        rows = ctx.tape.rows(gradients)
        record_lookup(ctx.tape, ctx.table, ids.reshape(rows.shape[:2]), rows, ctx.padding_idx)
        return None, None, None, None


def lookup(tape: Tape, ids: Tensor, table: Tensor, padding_idx: int | None = None) -> Tensor:
    """`functional.embedding`, recorded: y_r = W[id_r]. Only rows looked up receive a gradient."""
    found: Tensor = apply(_Lookup, tape.anchor, tape, tape.batched(ids), (table, padding_idx))
    return found


def _refuse(module: nn.Embedding) -> str | None:
    if module.max_norm is not None:
        return "max_norm changes the rows that were looked up, without noise: set it to None"
    if module.scale_grad_by_freq:
        return "scale_grad_by_freq weights one example by the words of others: set it to False"
    return None


@rule_for(nn.Embedding, refuse=_refuse)
def embedding_rule(module: nn.Embedding, tape: Tape, input: Tensor) -> Tensor:
    return lookup(tape, input, module.weight, module.padding_idx)
