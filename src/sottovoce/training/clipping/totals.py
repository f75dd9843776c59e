"""Sums of clipped gradients, stored outside the reach of the loop until noise is added.

Sums are float32 or better, whatever the precision of the model: in bfloat16, the rounding of a
large sum exceeds the sensitivity and the noise. `p.grad` stays empty meanwhile, so that no other
code can use a gradient without noise.

A plain backward pass allocates a gradient of the whole embedding table, nearly all zeros, at every
step; for a small BERT that costs more than clipping and noise together. Here torch computes sparse
gradients instead, which are summed in memory that is reused at the next step.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

# Smaller tables do not benefit.
LARGE = 1 << 20


class Tables:
    """The large embedding tables of a model; while `by_rows`, their gradients are sparse.

    >>> table = nn.Embedding(1 << 18, 4)
    >>> tables = Tables(table)
    >>> with tables.by_rows():
    ...     table(torch.tensor([5, 5, 7])).sum().backward()
    >>> table.weight.grad.coalesce().indices()
    tensor([[5, 7]])
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = [
            module
            for module in model.modules()
            # A parametrised weight needs a dense gradient for its own backward pass.
            if isinstance(module, nn.Embedding)
            and isinstance(module.weight, nn.Parameter)
            and module.weight.numel() >= LARGE
            and not (module.sparse or module.scale_grad_by_freq)
        ]

    @contextmanager
    def by_rows(self) -> Iterator[None]:
        try:
            for module in self._modules:
                module.sparse = True
            yield
        finally:
            for module in self._modules:
                module.sparse = False


class TableGradients:
    """Gradients of large tables, in memory that is reused from step to step.

    The operating system allocates and clears new memory page by page, which for the table of a
    small BERT takes longer than drawing its noise. Keeping the memory does not raise the peak: by
    the end of a step, as much activation memory has been freed. Callers of `zeros` must be done
    with the gradients of the previous step.
    """

    def __init__(self) -> None:
        self._kept: dict[nn.Parameter, Tensor] = {}

    def zeros(self, parameter: nn.Parameter) -> Tensor:
        """A zero gradient for this parameter.

        >>> gradients, table = TableGradients(), nn.Embedding(1 << 18, 4).weight
        >>> gradients.zeros(table)[7].fill_(1.0)
        tensor([1., 1., 1., 1.])
        >>> gradients.zeros(table)[7]
        tensor([0., 0., 0., 0.])
        """
        dtype = torch.promote_types(parameter.dtype, torch.float32)
        if parameter.numel() < LARGE:
            return torch.zeros_like(parameter, dtype=dtype, requires_grad=False)
        kept = self._kept.get(parameter)
        if kept is None or kept.device != parameter.device or kept.dtype != dtype:
            kept = torch.empty_like(parameter, dtype=dtype, requires_grad=False)
            self._kept[parameter] = kept
        return kept.zero_()


def sum_dtype(tensor: Tensor) -> torch.dtype:
    """The type for sums of such tensors and for their noise."""
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
        """With `tables`, sums of large tables use its memory."""
        self._totals: dict[nn.Parameter, Tensor] = {}
        self._tables = tables

    def add(self, parameter: nn.Parameter, total: Tensor) -> None:
        """Add a tensor and take ownership of it."""
        total = total.to(sum_dtype(parameter))
        held = self._totals.get(parameter)
        self._totals[parameter] = total if held is None else held.add_(total)

    def add_scaled(self, parameter: nn.Parameter, value: Tensor, factor: float) -> None:
        """Add `factor` times a tensor and take ownership of it; it may become the sum itself."""
        held = self._totals.get(parameter)
        if held is None:
            self._totals[parameter] = value.to(sum_dtype(parameter)).mul_(factor)
        else:
            held.add_(value, alpha=factor)

    def add_rows(self, parameter: nn.Parameter, places: Tensor, rows: Tensor) -> None:
        """Add rows to a table."""
        total = self.of(parameter)
        total.index_add_(0, places, rows.to(total.dtype))

    def of(self, parameter: nn.Parameter) -> Tensor:
        """The sum, for in-place addition."""
        held = self._totals.get(parameter)
        if held is None:
            held = self._totals[parameter] = self._zeros(parameter)
        return held

    def tensors(self, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
        """All sums. An unused parameter has zeros, which get noise like all others."""
        return [self.of(parameter) for parameter in parameters]

    def clear(self) -> None:
        self._totals.clear()

    def _zeros(self, parameter: nn.Parameter) -> Tensor:
        if self._tables is not None:
            return self._tables.zeros(parameter)
        return torch.zeros_like(parameter, dtype=sum_dtype(parameter), requires_grad=False)


class SumsByRows(ClippedSums):
    """Sums in which large tables are sparse, for a few examples.

    >>> table = nn.Embedding(1 << 18, 4).weight
    >>> sums = SumsByRows()
    >>> for _ in range(2):
    ...     sums.add_rows(table, torch.tensor([5, 7]), torch.ones(2, 4))
    >>> sums.tensors([table])[0].values()[:, 0]
    tensor([2., 2.])
    """

    def add_rows(self, parameter: nn.Parameter, places: Tensor, rows: Tensor) -> None:
        if parameter.numel() < LARGE:
            super().add_rows(parameter, places, rows)
            return
        rows = rows.to(sum_dtype(parameter))
        total = torch.sparse_coo_tensor(
            places.unsqueeze(0), rows, parameter.shape, check_invariants=False
        )
        held = self._totals.get(parameter)
        self._totals[parameter] = total if held is None else held + total

    def add(self, parameter: nn.Parameter, total: Tensor) -> None:
        held = self._totals.pop(parameter, None)
        super().add(parameter, total if held is None else total.to(held.dtype) + held)

    def tensors(self, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
        """Sparse ones have every row once."""
        totals = super().tensors(parameters)
        return [total.coalesce() if total.is_sparse else total for total in totals]
