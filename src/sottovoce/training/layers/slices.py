"""Any operation on parameters and a batch, differentiated one example at a time.

The forward pass runs once, as usual. The backward pass runs the operation again on the rows of each
example alone. What it computes must equal that part of the forward pass; otherwise the operation
mixes examples or has them in another dimension, and is refused. Slow, but it needs no rule.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sottovoce.errors import InvalidInput
from sottovoce.training.layers.registry import apply
from sottovoce.training.records.records import Instantiated
from sottovoce.training.records.tape import Tape

# The values of one example alone and in a batch may differ by rounding.
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3, torch.bfloat16: 5e-2}
Operation = Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]


class _Slices(Function):
    @staticmethod
    def forward(
        ctx: Any,
        anchor: Tensor,
        tape: Tape,
        operation: Operation,
        refuse: Callable[[], InvalidInput],
        values: tuple[Tensor, ...],
        *batch: Tensor,
    ) -> Tensor:
        outputs = operation(values, batch)
        if not isinstance(outputs, Tensor):
            raise refuse()
        ctx.save_for_backward(outputs, *batch)
        ctx.tape, ctx.operation, ctx.refuse, ctx.values = tape, operation, refuse, values
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        outputs, *batch = ctx.saved_tensors
        examples = ctx.tape.grouping.examples
        wanted = ctx.needs_input_grad[5:]
        upstream = [
            torch.zeros_like(x) if want else None for x, want in zip(batch, wanted, strict=True)
        ]
        values = [value.detach().requires_grad_() for value in ctx.values]
        totals = [value.new_zeros(examples, *value.shape) for value in ctx.values]
        for example in range(examples):
            mine = [
                _rows(x, example, examples).detach().requires_grad_(want)
                for x, want in zip(batch, wanted, strict=True)
            ]
            try:
                with torch.enable_grad():
                    alone = ctx.operation(values, mine)
            except (RuntimeError, ValueError, IndexError) as problem:
                raise ctx.refuse() from problem
            if not _same(alone, _rows(outputs, example, examples)):
                raise ctx.refuse()
            leaves = [*values, *(x for x in mine if x.requires_grad)]
            found = torch.autograd.grad(
                alone, leaves, _rows(gradients, example, examples), allow_unused=True
            )
            for total, gradient in zip(totals, found, strict=False):
                if gradient is not None:
                    total[example] = gradient
            parts = iter(found[len(values) :])
            for whole in upstream:
                part = next(parts) if whole is not None else None
                if whole is not None and part is not None:
                    _rows(whole, example, examples).copy_(part)
        for value, total in zip(ctx.values, totals, strict=True):
            ctx.tape.add((value,), Instantiated(ctx.tape.grouping.sums(total)))
        return None, None, None, None, None, *upstream


def _rows(x: Tensor, example: int, examples: int) -> Tensor:
    size = len(x) // examples
    return x[example * size : (example + 1) * size]


def _same(alone: Tensor, among_others: Tensor) -> bool:
    close = TOLERANCE.get(among_others.dtype, 5e-2)
    same_shape = alone.shape == among_others.shape
    return same_shape and torch.allclose(alone, among_others, close, close, equal_nan=True)


def by_slices(
    tape: Tape,
    operation: Operation,
    refuse: Callable[[], InvalidInput],
    values: Sequence[Tensor],
    batch: Sequence[Tensor],
) -> Tensor:
    """`operation(values, batch)`, recorded; all of `batch` and the result have examples first."""
    outputs = apply(_Slices, tape.anchor, tape, operation, refuse, tuple(values), *batch)
    examples = tape.grouping.examples
    if (
        not isinstance(outputs, Tensor)
        or not outputs.dim()
        or (len(outputs) % examples if examples else len(outputs))
    ):
        raise refuse()
    return outputs
