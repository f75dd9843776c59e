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
from sottovoce.training.records.records import Instantiated
from sottovoce.training.records.tape import Tape


class _Expand(Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, tape: Tape, parameters: tuple[Tensor]) -> Tensor:
        ctx.tape, (parameter,) = tape, parameters
        ctx.parameter = parameter
        return parameter.detach().expand(tape.grouping.examples, *parameter.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[None, ...]:
        tape: Tape = ctx.tape
        tape.add((ctx.parameter,), Instantiated(tape.grouping.sums(gradients)))
        return None, None, None


def expanded(tape: Tape, parameter: Tensor) -> Tensor:
    """[examples, *shape]; the rule must use row i for example i only."""
    if not parameter.requires_grad:
        return parameter.expand(tape.grouping.examples, *parameter.shape)
    copies: Tensor = apply(_Expand, tape.anchor, tape, (parameter,))
    return copies


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
    copies = {name: expanded(tape, p) for name, p in module.named_parameters()}

    def alone(copy: dict[str, Tensor], args: Any, kwargs: Any) -> Any:
        args, kwargs = tree_map_only(Tensor, lambda x: x.unsqueeze(0), (args, kwargs))
        outputs = functional_call(module, copy, args, kwargs)
        return tree_map_only(Tensor, lambda y: y.squeeze(0), outputs)

    args, kwargs = tree_map_only(Tensor, tape.batched, (args, kwargs))
    dims = tree_map(lambda x: 0 if isinstance(x, Tensor) else None, (args, kwargs))
    return torch.vmap(alone, in_dims=(0, *dims), randomness="different")(copies, args, kwargs)
