"""The gradient of a matrix that multiplies rows: y_r = W a_r + c, for every row r of a group.

With b_r = dL/dy_r, the gradient of W is B^T A = sum_r b_r a_r^T and that of c is sum_r b_r, hence

    ||dL/dW||^2 + ||dL/dc||^2 = sum_{r,s} <b_r, b_s> (<a_r, a_s> + 1)

and no per-group matrix of the size of W is needed. As factors, n rows take n (p + d) numbers, and
their Gram matrices n^2 (p + d) products; materialised, the gradient takes p d numbers and n p d
products. So one comparison, p d against n (p + d), decides both memory and time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sottovoce.training.records.gram import GramCache, pair_sums
from sottovoce.training.records.grouping import Grouping, norm_dtype
from sottovoce.training.records.instantiated import squared_row_norms
from sottovoce.training.records.weights import GroupWeights


@dataclass(frozen=True, eq=False)
class OuterProduct:
    """sum_r b_r a_r^T, with `biases` biases of gradient sum_r b_r (an LSTM has two)."""

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

    def weighted_sums(self, weights: GroupWeights) -> tuple[Tensor, ...]:
        dtype = norm_dtype(self.gradients)  # a sum rounded to bfloat16 has no known sensitivity
        a, b = self.inputs.to(dtype), self.gradients.to(dtype)
        if a.shape[2] <= b.shape[2]:  # scaling copies: scale the smaller factor
            a, b = weights.scale(a), weights.clean_examples(b)
            bias = torch.mv(_matrix(b, like=b).t(), _matrix(weights.by_row(b), like=b))
        else:
            a, b = weights.clean_examples(a), weights.scale(b)
            bias = _matrix(b, like=b).sum(0) if self.biases else b.new_empty(0)
        weight = torch.mm(_matrix(b, like=b).t(), _matrix(a, like=b))
        return weight.view(self.shape), *(bias.clone() for _ in range(self.biases))


def formed_is_smaller(rows: int, shape: Sequence[int]) -> bool:
    """Whether p d numbers are fewer than rows (p + d)."""
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
