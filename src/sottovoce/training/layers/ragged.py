"""Rows of a batch in any number and order: tokens sent to an expert, or masked positions only.

`hidden[token_idx]` has rows of some examples. Which example each row belongs to is known from the
index, and carried along with the tensor while it goes through operations that keep its rows.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_NAME = "_sottovoce_examples"
_COLUMNS = "_sottovoce_columns"


def examples_of(x: Tensor) -> Tensor | None:
    """The example of each row, if the rows were picked by an index."""
    found: Tensor | None = getattr(x, _NAME, None)
    return found


def label(x: Tensor, examples: Tensor) -> Tensor:
    if x.dim() and len(x) == len(examples):
        setattr(x, _NAME, examples)
    return x


def columns_of(x: Tensor) -> Tensor | None:
    """The example of each column of [steps, examples, ...], if they were put into an order."""
    found: Tensor | None = getattr(x, _COLUMNS, None)
    return found


def label_columns(x: Tensor, examples: Tensor) -> Tensor:
    if x.dim() > 1 and x.shape[1] == len(examples):
        setattr(x, _COLUMNS, examples)
    return x


def by_column(x: Tensor, order: Tensor) -> Tensor:
    """The columns of [layers, examples, ...] in another order."""
    return label_columns(x.index_select(1, order), order)


def in_order(owners: Tensor, examples: int) -> bool:
    """Whether rows are those of a batch: equally many of each example, next to each other."""
    if not examples or len(owners) % examples:
        return False
    return torch.equal(owners, _natural(len(owners), examples, owners.device))


def _natural(rows: int, examples: int, device: torch.device) -> Tensor:
    return torch.arange(examples, device=device).repeat_interleave(rows // examples)


def reordered(x: Tensor, index: Tensor, examples: int) -> Tensor | None:
    """The example of each column of `x[:, index]`."""
    if x.dim() < 2 or x.shape[1] != examples or index.dim() != 1 or index.dtype == torch.bool:
        return None
    columns = columns_of(x)
    return index % examples if columns is None else columns[index.to(columns.device)]


def picked(x: Tensor, index: Any, examples: int) -> Tensor | None:
    """The example of each row of `x[index]`, if the index picks rows of a batch."""
    rows = index[0] if isinstance(index, tuple) and index else index
    if not isinstance(rows, Tensor) or not x.dim() or not examples:
        return None
    owners = examples_of(x)
    if owners is None:
        if len(x) % examples:
            return None
        owners = _natural(len(x), examples, x.device)
    rows = rows.to(owners.device)
    if rows.dtype == torch.bool:
        whole = rows.shape == x.shape[: rows.dim()]
        return owners[rows.nonzero()[:, 0]] if whole else None
    return owners[rows] if rows.dim() == 1 else None


def padded(rule: Callable[[Tensor], Any], x: Tensor, examples: Tensor, count: int) -> Any:
    """Run a rule for [examples, rows, ...] on rows of any number per example, padded by zeros."""
    order = examples.argsort(stable=True)
    sizes = torch.bincount(examples, minlength=count)
    starts = sizes.cumsum(0) - sizes
    place = torch.empty_like(examples)
    place[order] = torch.arange(len(x), device=x.device) - starts[examples[order]]
    longest = max(1, int(sizes.max())) if count else 0
    block = x.new_zeros(count, longest, *x.shape[1:]).index_put((examples, place), x)
    outputs = rule(block)
    if not isinstance(outputs, Tensor):
        return outputs
    return label(outputs[examples, place], examples)
