"""Embedding, y_r = W[id_r]: only rows that were looked up receive a gradient."""

from typing import Any

from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from sottovoce.training.layers.function import apply
from sottovoce.training.layers.registry import rule_for
from sottovoce.training.records.tape import Tape, record_lookup


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
    """`functional.embedding`, recorded."""
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
