"""Large embedding tables, of which a batch uses few rows: only those rows are computed.

A plain backward pass makes a gradient of the whole table, nearly all zeros, in memory that is new
at every step; for a small BERT that costs more than its clipping and noise together. Here torch
makes sparse gradients instead, and they are added up in memory that is kept for the next step.
"""

import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor, nn

# Linux alone clears private memory that is given back.
_GIVES_BACK = sys.platform == "linux"
# From Linux 5.14 on, all pages can be asked for at once; Python has no name for it yet.
_POPULATE_WRITE = 23
# Small pages on purpose: large ones have to be put together first, and on a machine whose memory
# is in use that took several times as long as the small ones do.
_SMALL_PAGES: int | None = getattr(mmap, "MADV_NOHUGEPAGE", None)

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


class Pages:
    """Memory for the gradients of large tables, the same addresses at every step.

    New memory is handed out and cleared by the system page by page as it is touched, which for the
    table of a small BERT takes longer than its noise. Here all pages are asked for at once, and
    between steps they are given back, so that they are not missed while the model runs. Whoever
    asks for zeros must be done with the gradients of the step before.
    """

    def __init__(self) -> None:
        self._mapped: dict[nn.Parameter, tuple[mmap.mmap, Tensor]] = {}

    def zeros(self, parameter: nn.Parameter) -> Tensor:
        """A gradient of zeros.

        >>> pages, table = Pages(), nn.Embedding(1 << 18, 4).weight
        >>> pages.zeros(table)[7].fill_(1.0)
        tensor([1., 1., 1., 1.])
        >>> pages.zeros(table)[7]
        tensor([0., 0., 0., 0.])
        """
        if parameter.numel() < LARGE or not parameter.is_cpu or not _GIVES_BACK:
            return torch.zeros_like(parameter)
        if parameter not in self._mapped:
            self._mapped[parameter] = _map(parameter)
        memory, gradient = self._mapped[parameter]
        memory.madvise(mmap.MADV_DONTNEED)
        with suppress(OSError):  # an older system clears pages as they are touched
            memory.madvise(_POPULATE_WRITE)
        return gradient

    def give_back(self) -> None:
        """Let the system have the memory until it is needed again; what is in it is lost."""
        for memory, _ in self._mapped.values():
            memory.madvise(mmap.MADV_DONTNEED)


def _map(parameter: nn.Parameter) -> tuple[mmap.mmap, Tensor]:
    # Private: shared memory would keep its contents when it is given back.
    kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, parameter.numel() * parameter.element_size(), kind)
    if _SMALL_PAGES is not None:
        with suppress(OSError):  # a system without large pages has nothing to refuse
            memory.madvise(_SMALL_PAGES)
    return memory, torch.frombuffer(memory, dtype=parameter.dtype).view(parameter.shape)
