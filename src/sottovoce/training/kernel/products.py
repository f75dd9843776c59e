"""The compiled products kernel, which computes gradient norms about twice as fast as torch.

torch computes both halves of a Gram matrix, and reads the inputs of a LayerNorm several times.
"""

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from sottovoce import kernels
from sottovoce.kernels import FailedCheck
from sottovoce.training.kernel import readable, threads_for

SOURCE = Path(__file__).parent / "products.c"
# The kernel needs at least one full tile of rows.
FEWEST_ROWS = 4

_address, _size, _number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float


class Kernel:
    """A compiled library that passed its self-tests; for tensors that `kernel_for` accepts."""

    def __init__(self, path: Path) -> None:
        self._grams, self._pair_sums, self._norm_sums = kernels.functions(
            path,
            "sottovoce_products_supported",
            "sottovoce_grams",
            "sottovoce_pair_sums",
            "sottovoce_norm_sums",
            needs="AVX2 or FMA",
        )
        self._grams.argtypes = [_address] * 2 + [_size] * 6
        self._pair_sums.argtypes = [_address] * 2 + [_number] + [_address] * 2 + [_size] * 3
        self._norm_sums.argtypes = [_address] * 6 + [_size] * 4
        self._check()

    def grams(self, x: Tensor) -> Tensor:
        """x[g] x[g]^T for every group of [groups, rows, width], if `gram_kernel_for` accepts x."""
        groups, rows, _ = x.shape
        return self._write_grams(x, x.new_empty(groups, rows, rows))

    def _write_grams(self, x: Tensor, out: Tensor) -> Tensor:
        if not _in_rows(x):
            raise TypeError(f"expected {FEWEST_ROWS} or more contiguous rows, got {x.shape}")
        groups, rows, width = x.shape
        between_groups, between_rows, _ = x.stride()
        self._grams(
            x.data_ptr(), out.data_ptr(), groups, rows, width, between_groups, between_rows,
            threads_for(out.numel() * width),
        )  # fmt: skip
        return out

    def pair_sums(self, a: Tensor, b: Tensor, added: float) -> tuple[Tensor, Tensor]:
        """For each group, the sum of (a + added) * b and the sum of the roots of its diagonal."""
        groups, rows, _ = a.shape
        squares, sizes = a.new_empty(groups), a.new_empty(groups)
        self._pair_sums(
            a.data_ptr(), b.data_ptr(), added, squares.data_ptr(), sizes.data_ptr(),
            groups, rows, threads_for(a.numel()),
        )  # fmt: skip
        return squares, sizes

    def norm_sums(
        self, x: Tensor, gradients: Tensor, mean: Tensor, scale: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Sums of (x - mean) * scale * gradients and of the gradients over the rows of each group.

        The first two are [groups, rows, width], with one mean and scale per row.
        """
        groups, rows, width = x.shape
        weight, bias = x.new_empty(groups, width), x.new_empty(groups, width)
        self._norm_sums(
            x.data_ptr(), gradients.data_ptr(), mean.data_ptr(), scale.data_ptr(),
            weight.data_ptr(), bias.data_ptr(), groups, rows, width, threads_for(x.numel()),
        )  # fmt: skip
        return weight, bias

    def _check(self) -> None:
        """Self-test with integers, whose sums are exact, in a shape that leaves partial tiles."""
        groups, rows, width = 3, 10, 21
        x = torch.arange(groups * rows * width, dtype=torch.float32).view(groups, rows, width)
        x = x.remainder(5.0) - 2.0
        # Strided rows, and output memory with wrong values.
        apart = x.transpose(0, 1).contiguous().transpose(0, 1)
        grams = self._write_grams(apart, x.new_full((groups, rows, rows), torch.nan))
        if not torch.equal(grams, torch.bmm(x, x.transpose(1, 2))):
            raise FailedCheck("its inner products are wrong")
        squares, sizes = self.pair_sums(grams, grams, 2.0)
        pairs = (grams + 2.0) * grams
        roots = pairs.diagonal(dim1=1, dim2=2).sqrt().sum(1)
        if not (torch.equal(squares, pairs.sum((1, 2))) and torch.allclose(sizes, roots)):
            raise FailedCheck("its sums over pairs are wrong")
        mean, scale = x[:, :, :1].contiguous(), x[:, :, 1:2].contiguous()
        weight, bias = self.norm_sums(x, x, mean, scale)
        expected = ((x - mean) * scale * x).sum(1)
        if not (torch.equal(weight, expected) and torch.equal(bias, x.sum(1))):
            raise FailedCheck("its sums over rows are wrong")


@cache
def load() -> Kernel | None:
    """The kernel built for this installation, if it can be used."""
    return kernels.load(SOURCE, Kernel)


def kernel_for(*tensors: Tensor) -> Kernel | None:
    """The kernel, if it can read all of these tensors."""
    fits = readable(*tensors) and all(x.is_contiguous() for x in tensors)
    return load() if fits else None


def gram_kernel_for(x: Tensor) -> Kernel | None:
    """The kernel, if it can compute Gram matrices of x; rows may be strided."""
    return load() if readable(x) and _in_rows(x) else None


def _in_rows(x: Tensor) -> bool:
    return x.shape[1] >= FEWEST_ROWS and (x.stride(2) == 1 or x.shape[2] <= 1)
