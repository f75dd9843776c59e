"""Gram matrices of the rows of a group, cached for tensors that several layers share.

Query, key and value projections have the same input, as do both directions of a recurrent layer,
whose two weight matrices receive the same gradient.
"""

from collections import OrderedDict

import torch
from torch import Tensor

from sottovoce.training.kernel.products import gram_kernel_for, kernel_for
from sottovoce.training.records.grouping import Bucket, norm_dtype

# Layers that share a tensor are close together in the backward pass, so a few entries are enough:
# the input, the state and the gradient of one direction of a recurrent layer.
_KEPT = 3


class GramCache:
    """Caches the last few Gram matrices and keeps their source tensors alive."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], tuple[Tensor, Tensor]] = OrderedDict()

    def of(self, rows: Tensor, bucket: Bucket) -> Tensor:
        """[groups, n, n] inner products of the n rows of each group of a bucket."""
        key = (*identity(rows), id(bucket))
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key][1]
        gram = grams(bucket.take(rows))
        self._known[key] = (rows, gram)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return gram

    def clear(self) -> None:
        self._known.clear()


def identity(x: Tensor) -> tuple[object, ...]:
    """Equal for two views of the same data, as long as one of them is alive."""
    return x.data_ptr(), x._version, x.shape, x.stride()


def grams(x: Tensor) -> Tensor:
    """x[g] x[g]^T for every group g, in float32 or better."""
    kernel = gram_kernel_for(x)
    return inner_products(x, x) if kernel is None else kernel.grams(x)


def inner_products(x: Tensor, y: Tensor) -> Tensor:
    """x[g] y[g]^T for every group g, in float32 or better."""
    x = x.to(norm_dtype(x))
    y = y.to(x.dtype)
    if x.shape[1] == y.shape[1] == 1:
        return (x * y).sum(-1, keepdim=True)
    return torch.bmm(x, y.transpose(1, 2))


def pair_sums(a: Tensor, b: Tensor, biases: int) -> tuple[Tensor, Tensor]:
    """For two Gram matrices: sum_rs (a_rs + biases) b_rs, and sum_r sqrt((a_rr + biases) b_rr)."""
    if kernel := kernel_for(a, b):
        return kernel.pair_sums(a, b, biases)
    pairs = (a + biases).mul_(b)
    return pairs.sum((1, 2)), pairs.diagonal(dim1=1, dim2=2).sqrt().sum(1)
