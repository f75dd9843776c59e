"""Where clipped gradients are added up, out of reach of the loop, until they have their noise.

Sums are kept in float32 or better whatever the model computes in: the sum of a large batch in
bfloat16 is rounded by more than one example may move it, and would swallow the noise. `p.grad`
stays empty meanwhile, so that no optimiser, scheduler or habit can use a gradient without noise.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sottovoce.training.clipping.tables import TableGradients


def sum_dtype(tensor: Tensor) -> torch.dtype:
    """The type in which sums of such tensors, and their noise, are kept."""
    return torch.promote_types(tensor.dtype, torch.float32)


class ClippedSums:
    """One sum for every parameter.

    >>> weight = nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))
    >>> sums = ClippedSums()
    >>> sums.add(weight, torch.ones(2))
    >>> sums.add(weight, torch.ones(2))
    >>> sums.tensors([weight])
    [tensor([2., 2.])]
    """

    def __init__(self, tables: TableGradients | None = None) -> None:
        """With `tables`, the sums of large tables are in memory of theirs."""
        self._totals: dict[nn.Parameter, Tensor] = {}
        self._tables = tables

    def add(self, parameter: nn.Parameter, total: Tensor) -> None:
        """Add a tensor that nobody else needs."""
        total = total.to(sum_dtype(parameter))
        held = self._totals.get(parameter)
        self._totals[parameter] = total if held is None else held.add_(total)

    def add_scaled(self, parameter: nn.Parameter, value: Tensor, factor: float) -> None:
        """Add `factor` times a tensor that nobody else needs; it may become the sum itself."""
        held = self._totals.get(parameter)
        if held is None:
            self._totals[parameter] = value.to(sum_dtype(parameter)).mul_(factor)
        else:
            held.add_(value, alpha=factor)

    def of(self, parameter: nn.Parameter) -> Tensor:
        """The sum, to be added to in place."""
        held = self._totals.get(parameter)
        if held is None:
            held = self._totals[parameter] = self._zeros(parameter)
        return held

    def tensors(self, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
        """All sums. A parameter that no piece used has zeros, which get noise like any other."""
        return [self.of(parameter) for parameter in parameters]

    def clear(self) -> None:
        self._totals.clear()

    def _zeros(self, parameter: nn.Parameter) -> Tensor:
        if self._tables is not None:
            return self._tables.zeros(parameter)
        return torch.zeros_like(parameter, dtype=sum_dtype(parameter), requires_grad=False)
