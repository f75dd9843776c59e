"""The registry of rules, to which user code can add rules for its own modules.

A rule is a second implementation of a module's forward pass, with functions that write to the tape.
It is called in place of `forward` while a keeper records, and must return the same values.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.utils import parametrize

Forward = TypeVar("Forward", bound=Callable[..., Any])


@dataclass(frozen=True)
class Rule:
    """How to run a module while recording, and which of its parameters this covers."""

    forward: Callable[..., Any]
    covers: Callable[[nn.Module], Iterable[str]]
    refuse: Callable[[Any], str | None]


_RULES: dict[type[nn.Module], Rule] = {}


def own_parameters(module: nn.Module) -> list[str]:
    return [name for name, _ in module.named_parameters(recurse=False)]


def all_parameters(module: nn.Module) -> list[str]:
    return [name for name, _ in module.named_parameters(remove_duplicate=False)]


def rule_for(
    kind: type[nn.Module],
    *,
    covers: Callable[[nn.Module], Iterable[str]] | tuple[str, ...] = own_parameters,
    refuse: Callable[[Any], str | None] = lambda module: None,
) -> Callable[[Forward], Forward]:
    """Register `forward(module, tape, *args, **kwargs)` as the rule of a kind of module.

    The rule writes to the tape with `linear`, `lookup`, `scale_and_shift`, or `expanded`, which
    suits any small parameter:

        @rule_for(Scale)
        def scale(module: Scale, tape: Tape, x: Tensor) -> Tensor:
            return x * expanded(tape, module.factor)[:, None]

    `covers` returns the names of the parameters it records, by default the module's own; dotted
    names belong to submodules, which are then not recorded a second time. `refuse` may inspect a
    module and return why it cannot be trained, with a remedy.
    """

    def register(forward: Forward) -> Forward:
        named = (lambda module: covers) if isinstance(covers, tuple) else covers
        _RULES[kind] = Rule(forward, named, refuse)
        return forward

    return register


# What a subclass may define without changing what forward computes.
_HARMLESS = {"extra_repr", "reset_parameters", "train", "eval"}


def find_rule(module: nn.Module) -> Rule | None:
    """The rule of the module's class, or of an ancestor whose forward pass it inherits unchanged.

    A class that overrides anything that its ancestor's forward pass may call gets no rule.

    >>> class Doubled(nn.Linear):
    ...     def forward(self, input):
    ...         return 2 * super().forward(input)
    >>> find_rule(Doubled(2, 2)) is None
    True
    """
    if not _holds_its_parameters(module):
        return None
    between: set[str] = set()
    for kind in type(module).__mro__:
        if kind in _RULES:
            return None if any(_overrides(kind, name) for name in between) else _RULES[kind]
        between |= vars(kind).keys()
    return None


def _holds_its_parameters(module: nn.Module) -> bool:
    """Whether no parameter was replaced by a function of others, as `weight_norm` does."""
    if parametrize.is_parametrized(module):
        return False
    return not any(isinstance(value, Tensor) for value in vars(module).values())


def overridden_on_object(module: nn.Module) -> str | None:
    """The name of a method that was replaced on the instance, if any."""
    names = (name for name in vars(module) if _overrides(type(module), name))
    return next(names, None)


def _overrides(kind: type[nn.Module], name: str) -> bool:
    magic = name.startswith("__") and name != "__call__"
    return not magic and name not in _HARMLESS and callable(getattr(kind, name, None))


def apply(function: type[Function], *arguments: Any) -> Any:
    """`function.apply`, typed."""
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


_ALIGNMENT = 64
# The overhead that glibc adds to a request: alignment, minimum block size and header.
_SLACK = 256
# Fragmentation by smaller blocks is negligible.
_SMALL = 1 << 16


def empty_output(shape: Sequence[int], like: Tensor) -> Tensor:
    """`like.new_empty(shape)`, in a block that can be reused.

    torch requests blocks aligned to 64 bytes. glibc allocates slightly more and trims the rest, so
    a freed block is always too small for the next request of the same size. In a backward pass that
    keeps its gradients, this fragments memory. Blocks that are aligned manually, with some slack,
    can be reused for requests of the same size.

    >>> empty_output((2, 40000), torch.ones(1)).shape
    torch.Size([2, 40000])
    """
    size = math.prod(shape) * like.element_size()
    if like.device.type != "cpu" or size < _SMALL:
        return like.new_empty(shape)
    block = torch.from_numpy(np.empty(size + _SLACK, np.uint8))
    start = -block.data_ptr() % _ALIGNMENT
    # Not a view: autograd restricts in-place operations on views.
    strides = torch.empty(shape, device="meta").stride()
    offset = start // like.element_size()
    return like.new_empty(0).set_(block.untyped_storage(), offset, shape, strides)
