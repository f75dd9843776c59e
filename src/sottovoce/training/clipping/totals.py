"""Where clipped gradients are added up, out of reach of the loop, until they have their noise.

Sums are kept in float32 or better whatever the model computes in: the sum of a large batch in
bfloat16 is rounded by more than one example may move it, and would swallow the noise. `p.grad`
stays empty meanwhile, so that no optimiser, scheduler or habit can use a gradient without noise.

A plain backward pass makes a gradient of the whole table, nearly all zeros, in memory that is new
at every step; for a small BERT that costs more than its clipping and noise together. Here torch
makes sparse gradients instead, and they are added up in memory that is kept for the next step.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

# Tables below this number of entries are not worth the trouble.
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
            # A weight that is computed from others needs a whole gradient to go on with.
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
    """Gradients of large tables, in memory that is kept from step to step.

    New memory is handed out and cleared by the system page by page, which for the table of a small
    BERT takes longer than its noise. What a step needs at its end is not missed while the model
    runs: by then as much has been set free, and an allocator keeps that. Whoever asks for zeros
    must be done with the gradients of the step before.
    """

    def __init__(self) -> None:
        self._kept: dict[nn.Parameter, Tensor] = {}

    def zeros(self, parameter: nn.Parameter) -> Tensor:
        """A gradient of zeros.

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
