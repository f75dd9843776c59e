"""The gradient of an embedding table: row v receives sum_{r: id_r = v} b_r.

Gradients of the same row and group are summed first. The remaining rows are distinct within each
group, so the squared norm of a group is the sum of their squared norms.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sottovoce.training.records.instantiated import squared_row_norms
from sottovoce.training.records.weights import GroupWeights


@dataclass(frozen=True, eq=False)
class Lookup:
    """Entry k adds rows[k] to row ids[k] of group groups[k]; sorted by group, then by id."""

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

    def weighted_sums(self, weights: GroupWeights) -> tuple[Tensor, ...]:
        return (add_rows(self._weighted(weights), self.ids, self.table[0]),)

    def add_weighted(self, weights: GroupWeights, total: Tensor) -> None:
        """Add the weighted sum to an existing table, writing only the rows of this record."""
        total.index_add_(0, self.ids, self._weighted(weights).to(total.dtype))

    def _weighted(self, weights: GroupWeights) -> Tensor:
        factors = weights.groups[self.groups].to(self.rows.dtype)
        return weights.clean_groups(self.rows, self.groups) * factors.unsqueeze(1)


def add_rows(rows: Tensor, places: Tensor, size: int) -> Tensor:
    """[size, width] with rows[k] added to places[k]; several times faster than index_add."""
    added: Tensor = torch.ops.aten.embedding_dense_backward(rows, places, size, -1, False)
    return added
