"""Values computed from parameters alone: a weight that is transposed, normalised, cut or cast.

Such a value is the same for all examples. Where it meets an example, its gradient is recorded group
by group like that of a parameter, [count, *shape], and then pulled back to the parameters it was
computed from by autograd, with one vector-Jacobian product per group.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sottovoce.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Derived:
    """A value with the parameters it comes from and, where known, a cheaper way back to them."""

    value: Tensor
    parameters: tuple[nn.Parameter, ...]
    rows_of: tuple[nn.Parameter, Tensor, int | None] | None = None
    """The table, row numbers and padding index that it was looked up with."""
    tiles: Tensor | None = None
    """The value that it repeats along its first dimension, once for every example."""
    again: Callable[[], Tensor] | None = None
    """Computes it as a part of the batch, if its first dimension turns out to be the examples."""


class DerivedValues:
    """The derived values of one pass, and the copies of parameters they start from."""

    def __init__(self) -> None:
        self._values: dict[int, Derived] = {}
        self._copies: dict[int, Tensor] = {}
        self._originals: dict[int, nn.Parameter] = {}
        self._pulling = False

    def __contains__(self, value: object) -> bool:
        return id(value) in self._values

    def __getitem__(self, value: Tensor) -> Derived:
        return self._values[id(value)]

    def get(self, value: object) -> Derived | None:
        return self._values.get(id(value))

    def add(self, derived: Derived) -> None:
        # Held until the pass ends, so that ids stay unique.
        self._values[id(derived.value)] = derived

    def copy_of(self, parameter: nn.Parameter) -> Tensor:
        """A leaf with the parameter's memory, so that its graph is separate from the model's."""
        if id(parameter) not in self._copies:
            copy = parameter.detach().requires_grad_()
            copy.register_hook(self._refuse)  # type: ignore[no-untyped-call]
            self._copies[id(parameter)] = copy
            self._originals[id(copy)] = parameter
        return self._copies[id(parameter)]

    @property
    def leaves(self) -> list[Tensor]:
        """Where a derived value ends up in a loss unrecorded; a gradient there is refused."""
        return list(self._copies.values())

    def original_of(self, value: Tensor) -> nn.Parameter | None:
        return self._originals.get(id(value))

    def pull_back(self, value: Tensor, gradients: Tensor) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """The gradients of the parameters, from those of the value; both [count, *shape]."""
        parameters = self[value].parameters
        leaves = [self._copies[id(parameter)] for parameter in parameters]
        if not len(gradients):
            return
        self._pulling = True
        try:
            found = _products(value, leaves, gradients.to(value.dtype))
        finally:
            self._pulling = False
        for parameter, gradient in zip(parameters, found, strict=True):
            if gradient is not None:
                yield parameter, gradient

    def clear(self) -> None:
        self._values.clear()
        self._copies.clear()
        self._originals.clear()

    def _refuse(self, _: Tensor) -> None:
        """Raise if a backward pass comes here by another way: those gradients have no examples."""
        if not self._pulling:
            raise InvalidInput(
                "Expected every use of a parameter to be recorded, got one by an operation that "
                "cannot be followed: register a rule for the module (sottovoce.training.layers."
                "rule_for, or one_by_one), or use method='textbook'."
            )


def _products(value: Tensor, leaves: list[Tensor], gradients: Tensor) -> tuple[Tensor | None, ...]:
    def products(outer: Tensor, batched: bool) -> tuple[Tensor | None, ...]:
        found: tuple[Tensor | None, ...] = torch.autograd.grad(
            value, leaves, outer, retain_graph=True, allow_unused=True, is_grads_batched=batched
        )
        return found

    try:
        with warnings.catch_warnings():  # operations without a batched form run in a loop
            warnings.simplefilter("ignore")
            return products(gradients, True)
    except RuntimeError:
        rows = [products(gradient, False) for gradient in gradients]
        return tuple(
            None if column[0] is None else torch.stack([g for g in column if g is not None])
            for column in zip(*rows, strict=True)
        )
