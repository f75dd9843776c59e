"""Large embedding tables, of which a batch uses few rows: only those rows are computed.

A plain backward pass makes a gradient of the whole table, nearly all zeros, in memory that is new
at every step; for a small BERT that costs more than its clipping and noise together. Here torch
makes sparse gradients instead, and they are added up in memory that is kept for the next step.
"""

from collections.abc import Iterator
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
