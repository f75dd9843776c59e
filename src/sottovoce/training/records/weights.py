"""The weight of each group's gradient in the sum, and the groups that are excluded."""

import torch
from torch import Tensor

from sottovoce.training.records.gram import identity
from sottovoce.training.records.grouping import Grouping


class GroupWeights:
    """Weights of groups, available per group or per example.

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
