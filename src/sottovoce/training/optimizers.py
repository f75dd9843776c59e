"""Optimisers that stand for others: several as one, and one whose steps are taken elsewhere."""

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from sottovoce.errors import InvalidInput


class Together(Optimizer):
    """Several optimisers of different parameters that take every step together.

    >>> layers = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    >>> both = Together(torch.optim.SGD(layers[0].parameters(), lr=0.1),
    ...                 torch.optim.Adam(layers[1].parameters()))
    >>> [group["lr"] for group in both.param_groups]
    [0.1, 0.001]
    """

    def __init__(self, *optimizers: Optimizer) -> None:
        if not optimizers:
            raise InvalidInput("Expected at least one optimiser, got none.")
        self._optimizers = optimizers
        super().__init__([torch.zeros(0, requires_grad=True)], {})

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for each in self._optimizers for group in each.param_groups]

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        """The base class sets its own; those of the optimisers stay."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """The base class adds its own."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        result = None if closure is None else closure()
        for each in self._optimizers:
            each.step()
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:
        for each in self._optimizers:
            each.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        return {"optimizers": [each.state_dict() for each in self._optimizers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for each, state in zip(self._optimizers, state_dict["optimizers"], strict=True):
            each.load_state_dict(state)


class Follower(Optimizer):
    """Stands for an optimiser in a loop that calls `step` itself: the step was taken already.

    Schedulers set the learning rate of the real optimiser through it.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.real = optimizer
        super().__init__([torch.zeros(0, requires_grad=True)], {})

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.real.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        """The base class sets its own; the real one's stay."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """The base class adds its own."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run the closure, in which the private step is taken, if there is one."""
        return None if closure is None else closure()

    # Schedulers ask whether a step was taken before theirs.
    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    _opt_called = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.real.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        return self.real.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.real.load_state_dict(state_dict)
