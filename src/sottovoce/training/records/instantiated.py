"""Materialised gradients, one per group: for biases, norms and small matrices."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sottovoce.training.records.grouping import norm_dtype
from sottovoce.training.records.weights import GroupWeights


@dataclass(frozen=True, eq=False)
class Instantiated:
    """`gradients` [count, *shape of the parameter]."""

    gradients: Tensor

    def measure(self) -> tuple[Tensor, Tensor]:
        squares = squared_row_norms(self.gradients)
        return squares, squares.sqrt()

    def instantiate(self) -> Tensor:
        return self.gradients

    def weighted_sums(self, weights: GroupWeights) -> tuple[Tensor, ...]:
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
