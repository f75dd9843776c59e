"""Groups of examples that are clipped together: single examples, micro-batches, or users.

The norm of a group, ||sum_{i in g} g_i||^2, needs the rows of all its examples together: their Gram
matrices.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.training.kernel.products import gram_kernel_for, kernel_for


@dataclass(frozen=True, eq=False)
class Bucket:
    """All groups of `size` examples.

    They are stacked into one block, so that every formula is written once, for blocks of shape
    [groups, rows, width], without padding.
    """

    size: int
    groups: Tensor | None
    """The group numbers; None if the bucket holds all groups, in order."""
    members: Tensor | None
    """[groups, size] example numbers; None if these are all examples, in order."""

    def take(self, rows: Tensor) -> Tensor:
        """[examples, rows, width] -> [groups, size * rows, width]."""
        if self.members is not None:
            return rows[self.members].flatten(1, 2)
        if self.size == 1:
            return rows
        return rows.reshape(-1, self.size * rows.shape[1], rows.shape[2])


@dataclass(frozen=True, eq=False)
class Grouping:
    """A partition of `examples` examples into `count` groups, some of which may be empty."""

    examples: int
    count: int
    labels: Tensor
    """[examples] the group of each example."""
    buckets: tuple[Bucket, ...]

    @classmethod
    def singletons(cls, examples: int, device: torch.device) -> "Grouping":
        """Every example in its own group."""
        labels = torch.arange(examples, device=device)
        return cls(examples, examples, labels, (Bucket(1, None, None),))

    @classmethod
    def of(cls, labels: Tensor, count: int | None = None) -> "Grouping":
        """Example i belongs to group labels[i].

        >>> grouping = Grouping.of(torch.tensor([2, 0, 2]), count=4)
        >>> grouping.sums(torch.tensor([[1.0], [2.0], [3.0]])).flatten().tolist()
        [2.0, 0.0, 4.0, 0.0]
        """
        count = _checked_count(labels, count)
        sizes = torch.bincount(labels, minlength=count)
        order = labels.argsort(stable=True)
        starts = sizes.cumsum(0) - sizes
        buckets = []
        for size in torch.unique(sizes[sizes > 0]).tolist():
            groups = (sizes == size).nonzero().flatten()
            members = order[starts[groups, None] + torch.arange(size, device=labels.device)]
            everybody = members.numel() == len(labels)
            in_order = everybody and bool((members.flatten().diff() == 1).all())
            buckets.append(
                Bucket(
                    size,
                    None if len(groups) == count else groups,
                    None if in_order else members,
                )
            )
        return cls(len(labels), count, labels, tuple(buckets))

    @property
    def is_trivial(self) -> bool:
        """Whether group i is exactly example i."""
        return self.count == self.examples and all(
            bucket.size == 1 and bucket.groups is None and bucket.members is None
            for bucket in self.buckets
        )

    def join(self, parts: Sequence[Tensor], like: Tensor, *shape: int) -> Tensor:
        """Combine the results of all buckets into one tensor [count, *shape]."""
        if len(parts) == 1 and self.buckets[0].groups is None:
            return parts[0]
        joined = like.new_zeros(self.count, *shape, dtype=norm_dtype(like))
        for bucket, part in zip(self.buckets, parts, strict=True):
            assert bucket.groups is not None
            joined[bucket.groups] = part.to(joined.dtype)
        return joined

    def sums(self, per_example: Tensor) -> Tensor:
        """[examples, ...] -> [count, ...], summed within each group."""
        if self.is_trivial:
            return per_example
        sums = per_example.new_zeros(self.count, *per_example.shape[1:])
        return sums.index_add_(0, self.labels, per_example)


def norm_dtype(x: Tensor) -> torch.dtype:
    """The type for sums of squares: at least float32."""
    return torch.promote_types(x.dtype, torch.float32)


def _checked_count(labels: Tensor, count: int | None) -> int:
    if labels.dim() != 1 or labels.dtype != torch.int64:
        raise InvalidInput(
            "Expected groups to be a vector of int64, one group number for each example, "
            f"got shape {list(labels.shape)} of {labels.dtype}."
        )
    largest = int(labels.max()) if len(labels) else -1
    if len(labels) and int(labels.min()) < 0:
        raise InvalidInput(f"Expected group numbers >= 0, got {int(labels.min())}.")
    if count is None:
        return largest + 1
    if count <= largest:
        raise InvalidInput(f"Expected count > {largest}, the largest group number, got {count}.")
    return count


# Layers that share a tensor are close together in the backward pass, so a few entries are enough:
# the input, the state and the gradient of one direction of a recurrent layer.
_KEPT = 3


class GramCache:
    """Caches the last few Gram matrices and keeps their source tensors alive.

    Several layers may share a tensor: query, key and value projections have the same input, as do
    both directions of a recurrent layer, whose two weight matrices receive the same gradient.
    """

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
