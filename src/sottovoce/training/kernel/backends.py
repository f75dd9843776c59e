"""Matrix products by torch.mm or by oneDNN, whichever is faster on this processor.

torch multiplies by MKL, whose AVX-512 code does not run on processors of AMD; torch's own LSTM runs
in oneDNN, so ours would be slower than it. The first product of every kind is computed by both, on
some of its rows. oneDNN is taken if it was faster and right. Both round differently, so trainings
with a seed, which have to repeat, use torch.mm.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from sottovoce.training.kernel import readable

# Smaller products take longer to start than to compute.
LEAST = 1 << 22
# Rows and sums are raced on so many numbers.
ROWS, TERMS = 256, 1024
HEATS = 3
# Packing takes as long as half a product.
FEWEST = 4
# How much faster oneDNN has to be.
MARGIN = 0.97
# Rounding of sums of single precision, as a part of the largest number.
TOLERANCE = 1e-4

Kind = tuple[object, ...]


class Backends:
    """The choice for every kind of product that was met."""

    def __init__(self) -> None:
        self._chosen: dict[Kind, bool] = {}
        self._refused = False
        self._racing = False

    @contextmanager
    def racing(self, allowed: bool = True) -> Iterator[None]:
        """Let oneDNN compete within this block."""
        before, self._racing = self._racing, allowed
        try:
            yield
        finally:
            self._racing = before

    def onednn_for(self, x: Tensor, matrix: Tensor, *, packed: bool = False) -> bool:
        """Whether oneDNN should compute x @ matrix, with the matrix `packed` for it or as it is."""
        (rows, terms), columns = x.shape, matrix.shape[1]
        if not self._racing or self._refused or rows * terms * columns < LEAST:
            return False
        order = x.stride(1) == 1, matrix.stride(1) == 1
        kind = (packed, min(_class(rows), _class(ROWS)), _class(terms), columns, *order)
        chosen = self._chosen.get(kind)
        return self._race(kind, x, matrix, packed) if chosen is None else chosen

    def _race(self, kind: Kind, x: Tensor, matrix: Tensor, packed: bool) -> bool:
        if not (readable(x, matrix) and _has_onednn()):
            return False
        x, matrix = x[:ROWS, :TERMS], matrix[:TERMS]
        factor = pack(matrix, len(x)) if packed else matrix.t()
        ways: list[Callable[[], Tensor]] = [
            lambda: torch.mm(x, matrix),
            lambda: by_onednn(x, factor, None),
        ]
        right, found = (way() for way in ways)
        largest = float(right.abs().max())
        if not 0 < largest < torch.inf:
            return False  # nothing can be told from these; the next ones decide
        if not float((found - right).abs().max()) <= TOLERANCE * largest:
            self._refused = True
            return False
        taken: list[list[float]] = [[], []]
        for _ in range(HEATS):
            for way, seconds in zip(ways, taken, strict=True):
                began = time.thread_time()
                way()
                seconds.append(time.thread_time() - began)
        self._chosen[kind] = min(taken[1]) < MARGIN * min(taken[0])
        return self._chosen[kind]


def _class(size: int) -> int:
    """Sizes that differ by less than a factor of two or so are raced once."""
    return size.bit_length()


def _has_onednn() -> bool:
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return available and hasattr(torch.ops.mkldnn, "_linear_pointwise")


backends = Backends()


def times(
    x: Tensor,
    matrix: Tensor,
    added: Tensor | None = None,
    out: Callable[[], Tensor] | None = None,
) -> Tensor:
    """x @ matrix + added, in memory from `out` if torch computes it."""
    if backends.onednn_for(x, matrix):
        return by_onednn(x, matrix.t(), added)
    into = None if out is None else out()
    if added is None:
        return torch.mm(x, matrix, out=into)
    return torch.addmm(added, x, matrix, out=into)


class Repeated:
    """Many products of `rows` rows with one matrix, which is packed once if that is faster."""

    def __init__(self, matrix: Tensor, rows: int, products: int) -> None:
        self._matrix = matrix
        self._packed: Tensor | None = None
        if products >= FEWEST and rows * matrix.numel() >= LEAST:
            trial = torch.linspace(-1, 1, rows * len(matrix), device=matrix.device)
            trial = trial.to(matrix.dtype).view(rows, len(matrix))
            if backends.onednn_for(trial, matrix, packed=True):
                self._packed = pack(matrix, rows)

    def of(self, x: Tensor) -> Tensor:
        """x @ matrix"""
        if self._packed is None:
            return torch.mm(x, self._matrix)
        return by_onednn(x, self._packed, None)

    def add_to(self, total: Tensor, x: Tensor) -> None:
        """total += x @ matrix"""
        if self._packed is None:
            total.addmm_(x, self._matrix)
        else:
            total += by_onednn(x, self._packed, None)


def pack(matrix: Tensor, rows: int) -> Tensor:
    """The transpose of a matrix, in the order in which oneDNN reads it for so many rows."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(matrix.t(), rows)
    return packed


def by_onednn(x: Tensor, transposed: Tensor, added: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, transposed, added, "none", [], "")
    return product
