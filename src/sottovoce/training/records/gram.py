"""Gram matrices of the rows of a group, computed once for tensors that several layers share.

Query, key and value projections read the same input, both directions of a recurrent layer too,
and its two weight matrices receive the same gradient.
"""

from collections import OrderedDict

import torch
from torch import Tensor

from sottovoce.training.records.grouping import Bucket, norm_dtype

# Sharers come one right after the other in a backward pass, so a few are enough: the input, the
# state and the gradient of one direction of a recurrent layer.
_KEPT = 3


class GramCache:
    """Remembers the last few Gram matrices, and the tensors they came from to keep those alive."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], tuple[Tensor, Tensor]] = OrderedDict()

    def of(self, rows: Tensor, bucket: Bucket) -> Tensor:
        """[groups, n, n] inner products of the n rows of each group of a bucket."""
        key = (*identity(rows), id(bucket))
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key][1]
        gram = inner_products(bucket.take(rows))
        self._known[key] = (rows, gram)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return gram

    def clear(self) -> None:
        self._known.clear()


def identity(x: Tensor) -> tuple[object, ...]:
    """Equal for two views of the same numbers, as long as one of them is alive."""
    return x.data_ptr(), x._version, x.shape, x.stride()


def inner_products(x: Tensor, y: Tensor | None = None) -> Tensor:
    """x[g] y[g]^T for every group g, at least in float32."""
    x = x.to(norm_dtype(x))
    y = x if y is None else y.to(x.dtype)
    if x.shape[1] == y.shape[1] == 1:
        return (x * y).sum(-1, keepdim=True)
    return torch.bmm(x, y.transpose(1, 2))
