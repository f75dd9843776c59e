"""Per-example gradients of small parameters: expand the parameter to one copy per example.

The copies share memory in the forward pass; autograd returns the gradient of each example,
[examples, *shape]. Suitable for biases, scales and CRF transitions; too large for matrices.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.func import functional_call
from torch.utils._pytree import tree_map, tree_map_only

from sottovoce.training.layers.registry import all_parameters, apply, rule_for
from sottovoce.training.records.grouping import norm_dtype
from sottovoce.training.records.records import Instantiated
from sottovoce.training.records.tape import Tape


class _Copies(Function):
    """Repeats a value [1, ...] along its first dimension; `owners` is the example of each row.

    Without owners, the rows of one example are next to each other, equally many for each.
    """

    @staticmethod
    def forward(
        ctx: Any,
        anchor: Tensor,
        tape: Tape,
        values: tuple[Tensor],
        shape: tuple[int, ...],
        owners: Tensor | None,
    ) -> Tensor:
        (value,) = values
        ctx.tape, ctx.value, ctx.owners = tape, value, owners
        tiled = value.detach().reshape(-1, *shape[1:])
        fold = shape[0] // max(len(tiled), 1)
        return tiled.expand(shape) if len(tiled) == 1 else tiled.repeat(fold, *[1] * len(shape[1:]))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[None, ...]:
        tape: Tape = ctx.tape
        examples = tape.grouping.examples
        shape = examples, -1, *ctx.value.shape
        if ctx.owners is not None:
            totals = gradients.new_zeros(
                examples, *gradients.shape[1:], dtype=norm_dtype(gradients)
            )
            totals.index_add_(0, ctx.owners, gradients.to(totals.dtype))
            by_example = totals.view(examples, *ctx.value.shape)
        elif gradients.numel() == examples * ctx.value.numel():
            by_example = gradients.reshape(examples, *ctx.value.shape)
        else:
            by_example = gradients.reshape(shape).sum(1, dtype=norm_dtype(gradients))
        tape.add((ctx.value,), Instantiated(tape.grouping.sums(by_example)))
        return None, None, None, None, None


def copies(
    tape: Tape, value: Tensor, shape: tuple[int, ...], owners: Tensor | None = None
) -> Tensor:
    """`value` repeated along the first dimension, to this shape; row by row its example's copy."""
    found: Tensor = apply(_Copies, tape.anchor, tape, (value,), shape, owners)
    return found


def expanded(tape: Tape, parameter: Tensor) -> Tensor:
    """[examples, *shape]; the rule must use row i for example i only."""
    shape = tape.grouping.examples, *parameter.shape
    return copies(tape, parameter, shape) if parameter.requires_grad else parameter.expand(shape)


class _OwnRows(Function):
    """A value [examples * n, ...] of which each example uses its own rows only."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, tape: Tape, values: tuple[Tensor]) -> Tensor:
        (value,) = values
        ctx.tape, ctx.value = tape, value
        return value.detach().clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[None, ...]:
        tape: Tape = ctx.tape
        examples = tape.grouping.examples
        if not examples:
            return None, None, None
        by_example = gradients.reshape(examples, -1, *gradients.shape[1:])
        spread = by_example.new_zeros(examples, *by_example.shape)
        diagonal = torch.arange(examples, device=gradients.device)
        spread[diagonal, diagonal] = by_example
        totals = tape.grouping.sums(spread.reshape(examples, *gradients.shape))
        tape.add((ctx.value,), Instantiated(totals))
        return None, None, None


def own_rows(tape: Tape, value: Tensor) -> Tensor:
    """A derived value with a first dimension of examples, as a part of the batch."""
    derived = tape.derived.get(value)
    if derived is not None and derived.tiles is not None:
        return copies(tape, derived.tiles, tuple(value.shape))
    if derived is not None and derived.again is not None:
        return derived.again()
    found: Tensor = apply(_OwnRows, tape.anchor, tape, (value,))
    return found


def one_by_one(kind: type[nn.Module]) -> None:
    """Register a rule that runs a module on each example separately, as a batch of one.

    So no example can affect another, whatever the module does. Tensor arguments must have the
    examples first; other arguments are passed through. The module may have submodules, but no
    control flow that depends on tensor values, which `torch.vmap` does not support.

    >>> class Scale(nn.Module):
    ...     def __init__(self) -> None:
    ...         super().__init__()
    ...         self.factor = nn.Parameter(torch.ones(3))
    ...     def forward(self, x: Tensor) -> Tensor:
    ...         return x * self.factor
    >>> one_by_one(Scale)
    """
    rule_for(kind, covers=all_parameters)(_run_alone)


def _run_alone(module: nn.Module, tape: Tape, *args: Any, **kwargs: Any) -> Any:
    own = {name: expanded(tape, p) for name, p in module.named_parameters()}

    def alone(copy: dict[str, Tensor], args: Any, kwargs: Any) -> Any:
        args, kwargs = tree_map_only(Tensor, lambda x: x.unsqueeze(0), (args, kwargs))
        outputs = functional_call(module, copy, args, kwargs)
        return tree_map_only(Tensor, lambda y: y.squeeze(0), outputs)

    args, kwargs = tree_map_only(Tensor, tape.batched, (args, kwargs))
    dims = tree_map(lambda x: 0 if isinstance(x, Tensor) else None, (args, kwargs))
    return torch.vmap(alone, in_dims=(0, *dims), randomness="different")(own, args, kwargs)
