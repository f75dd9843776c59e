"""Records of gradients per group: materialised, embedding rows, and factors of matrices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sottovoce.training.kernel.backends import times
from sottovoce.training.records.grouping import GramCache, Grouping, identity, norm_dtype, pair_sums


class Record(Protocol):
    """The interface: gradients of one use of a parameter (and of its biases), for all groups."""

    def measure(self) -> tuple[Tensor, Tensor]:
        """[count] squared norms over all parameters of the record, and [count] magnitudes.

        A magnitude is the norm without cancellation, sum_r ||b_r|| ||a_r|| for factors. Rounding
        errors are relative to it.
        """

    def instantiate(self) -> Tensor:
        """[count, *shape] the materialised gradients of the first parameter."""

    def weighted_sums(self, weights: "GroupWeights") -> tuple[Tensor, ...]:
        """sum_g w_g g_g for each parameter of the record, as new tensors."""


class GroupWeights:
    """Weights of the gradients of groups in the sum, available per group or per example.

    A group whose norm is not finite is excluded. A weight of zero is not enough, because 0 * nan is
    nan: its rows are replaced by zeros first.
    """

    def __init__(self, grouping: Grouping, weights: Tensor, finite: Tensor) -> None:
        self._excluded = None if bool(finite.all()) else ~finite
        self.groups = weights if self._excluded is None else weights.masked_fill(~finite, 0)
        self._labels = None if grouping.is_trivial else grouping.labels
        self.examples = self.groups if self._labels is None else self.groups[self._labels]
        self._scaled: tuple[Tensor, Tensor] | None = None

    def clean_groups(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        """x without the rows of excluded groups; row i belongs to group labels[i] (or i)."""
        if self._excluded is None:
            return x
        excluded = self._excluded if labels is None else self._excluded[labels]
        return x.masked_fill(excluded.view(-1, *[1] * (x.dim() - 1)), 0)

    def clean_examples(self, x: Tensor) -> Tensor:
        return self.clean_groups(x, self._labels)

    def scale(self, x: Tensor) -> Tensor:
        """[examples, rows, width], every example times its weight.

        The last result is cached, because query, key and value projections share one input.
        """
        if self._scaled is None or identity(self._scaled[0]) != identity(x):
            weights = self.examples.to(x.dtype)
            self._scaled = (x, self.clean_examples(x) * weights.view(-1, 1, 1))
        return self._scaled[1]

    def by_row(self, x: Tensor) -> Tensor:
        """The weight of each row of [examples, rows, width], shape [examples, rows]."""
        return self.examples.to(x.dtype).unsqueeze(1).expand(x.shape[:2])


def spread(weights: Tensor, layers: int) -> tuple[Tensor, ...]:
    """One vector of weights per layer, from one for all layers or one for each.

    >>> [len(w) for w in spread(torch.ones(4), layers=2)]
    [4, 4]
    """
    return torch.unbind(weights) if weights.dim() == 2 else (weights,) * layers


@dataclass(frozen=True, eq=False)
class Instantiated:
    """Materialised gradients [count, *shape of the parameter]: biases, norms and small matrices."""

    gradients: Tensor

    def measure(self) -> tuple[Tensor, Tensor]:
        squares = squared_row_norms(self.gradients)
        return squares, squares.sqrt()

    def instantiate(self) -> Tensor:
        return self.gradients

    def weighted_sums(self, weights: "GroupWeights") -> tuple[Tensor, ...]:
        flat = weights.clean_groups(as_rows(self.gradients)).to(norm_dtype(self.gradients))
        total = torch.mv(flat.t(), weights.groups.to(flat.dtype))
        return (total.view(self.gradients.shape[1:]),)


def squared_row_norms(x: Tensor) -> Tensor:
    """||x[i]||^2 without allocating x^2."""
    norms: Tensor = torch.linalg.vector_norm(as_rows(x), dim=1, dtype=norm_dtype(x))
    return norms.square()


def as_rows(x: Tensor) -> Tensor:
    """[count, ...] -> [count, width], also for scalars and for a count of zero."""
    return x.reshape(len(x), math.prod(x.shape[1:]))


@dataclass(frozen=True, eq=False)
class Lookup:
    """The gradient of an embedding table: row v receives sum_{r: id_r = v} b_r.

    Gradients of the same row and group are summed first. The remaining rows are distinct within
    each group, so the squared norm of a group is the sum of their squared norms.

    Entry k adds rows[k] to row ids[k] of group groups[k]; entries are sorted by group, then by id.
    """

    groups: Tensor
    ids: Tensor
    rows: Tensor
    count: int
    table: torch.Size

    @property
    def keys(self) -> Tensor:
        return self.groups * self.table[0] + self.ids

    def measure(self) -> tuple[Tensor, Tensor]:
        by_row = squared_row_norms(self.rows)
        squares = by_row.new_zeros(self.count).index_add_(0, self.groups, by_row)
        return squares, squares.sqrt()

    def instantiate(self) -> Tensor:
        formed = self.rows.new_zeros(self.count * self.table[0], self.table[1])
        formed[self.keys] = self.rows
        return formed.view(self.count, *self.table)

    def weighted_sums(self, weights: "GroupWeights") -> tuple[Tensor, ...]:
        return (add_rows(self._weighted(weights), self.ids, self.table[0]),)

    def weighted_rows(self, weights: GroupWeights) -> tuple[Tensor, Tensor]:
        """The weighted sum as rows of a table, and their places in it."""
        return self.ids, self._weighted(weights)

    def _weighted(self, weights: GroupWeights) -> Tensor:
        factors = weights.groups[self.groups].to(self.rows.dtype)
        return weights.clean_groups(self.rows, self.groups) * factors.unsqueeze(1)


def add_rows(rows: Tensor, places: Tensor, size: int) -> Tensor:
    """[size, width] with rows[k] added to places[k]; several times faster than index_add."""
    added: Tensor = torch.ops.aten.embedding_dense_backward(rows, places, size, -1, False)
    return added


@dataclass(frozen=True, eq=False)
class OuterProduct:
    """The gradient of a matrix, as its factors a_r and b_r; an LSTM has two `biases`.

    The matrix multiplies rows: y_r = W a_r + c, for every row r of a group. With b_r = dL/dy_r, the
    gradient of W is B^T A = sum_r b_r a_r^T and that of c is sum_r b_r, hence

        ||dL/dW||^2 + ||dL/dc||^2 = sum_{r,s} <b_r, b_s> (<a_r, a_s> + 1)

    and no per-group matrix of the size of W is needed.
    """

    inputs: Tensor
    """a, [examples, rows, d]"""
    gradients: Tensor
    """b, [examples, rows, p]"""
    biases: int
    shape: torch.Size
    """The shape of the weight: [p, d], or [p, ...] for a convolution."""
    grouping: Grouping
    grams: GramCache

    def measure(self) -> tuple[Tensor, Tensor]:
        squares, sizes = [], []
        for bucket in self.grouping.buckets:
            if formed_is_smaller(self.inputs.shape[1] * bucket.size, self.shape):
                a, b = bucket.take(self.inputs), bucket.take(self.gradients)
                formed = squared_row_norms(form(a, b))
                if self.biases:
                    formed += self.biases * squared_row_norms(b.sum(1, dtype=norm_dtype(b)))
                squares.append(formed)
                sizes.append(formed.sqrt())
            else:
                a = self.grams.of(self.inputs, bucket)
                square, size = pair_sums(a, self.grams.of(self.gradients, bucket), self.biases)
                squares.append(square)
                sizes.append(size)
        join = self.grouping.join
        return join(squares, self.gradients), join(sizes, self.gradients)

    def instantiate(self) -> Tensor:
        """[count, *shape], without the biases."""
        formed = [
            form(bucket.take(self.inputs), bucket.take(self.gradients))
            for bucket in self.grouping.buckets
        ]
        p, d = self.gradients.shape[2], self.inputs.shape[2]
        return self.grouping.join(formed, self.gradients, p, d).view(-1, *self.shape)

    def bias_gradients(self) -> Tensor:
        """[count, p], the gradient of one bias."""
        b = self.gradients
        return self.grouping.sums(b.sum(1, dtype=norm_dtype(b)))

    def weighted_sums(self, weights: "GroupWeights") -> tuple[Tensor, ...]:
        dtype = norm_dtype(self.gradients)  # a sum rounded to bfloat16 has no known sensitivity
        a, b = self.inputs.to(dtype), self.gradients.to(dtype)
        if a.shape[2] <= b.shape[2]:  # scaling copies: scale the smaller factor
            a, b = weights.scale(a), weights.clean_examples(b)
            bias = torch.mv(_matrix(b, like=b).t(), _matrix(weights.by_row(b), like=b))
        else:
            a, b = weights.clean_examples(a), weights.scale(b)
            bias = _matrix(b, like=b).sum(0) if self.biases else b.new_empty(0)
        weight = times(_matrix(b, like=b).t(), _matrix(a, like=b))
        return weight.view(self.shape), *(bias.clone() for _ in range(self.biases))


def formed_is_smaller(rows: int, shape: Sequence[int]) -> bool:
    """Whether p d numbers are fewer than rows (p + d).

    As factors, n rows take n (p + d) numbers, and their Gram matrices n^2 (p + d) products;
    materialised, the gradient takes p d numbers and n p d products. So one comparison, p d against
    n (p + d), decides both memory and time.
    """
    p, d = shape[0], math.prod(shape[1:])
    return p * d <= rows * (p + d)


def form(a: Tensor, b: Tensor) -> Tensor:
    """B^T A for every group, in float32 or better."""
    dtype = norm_dtype(b)
    return torch.bmm(b.to(dtype).transpose(1, 2), a.to(dtype))


def _matrix(x: Tensor, like: Tensor) -> Tensor:
    """All rows of all examples as one matrix, in the memory order of `like`.

    Recurrent layers store time first; keeping that order saves a copy.
    """
    if like.stride(0) < like.stride(1):
        x = x.transpose(0, 1)
    return x.flatten(0, 1)
