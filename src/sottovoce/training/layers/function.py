"""A typed door to `torch.autograd.Function.apply`, which has no types."""

from typing import Any

from torch.autograd import Function


def apply(function: type[Function], *arguments: Any) -> Any:
    return function.apply(*arguments)  # type: ignore[no-untyped-call]
