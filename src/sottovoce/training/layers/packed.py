"""Packed sequences: whose rows they hold, and recurrent layers on batches that were sorted before.

`pack_padded_sequence` sorts a batch by length and takes its rows step by step. The order of the
examples is carried along from there (see `ragged`), through layers that run on `packed.data`, until
`pad_packed_sequence` puts them back.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from sottovoce.training.layers.ragged import (
    by_column,
    columns_of,
    examples_of,
    in_order,
    label,
    label_columns,
    picked,
    reordered,
)


def rows_of(order: Tensor, batch_sizes: Tensor) -> Tensor:
    """The example of each row of packed data, from those of the sorted sequences."""
    return torch.cat([order[:size] for size in batch_sizes.tolist()])


def label_packed(packed: PackedSequence, order: Tensor | None, examples: int) -> None:
    """Without an order, `sorted_indices` sorted the examples."""
    if examples and int(packed.batch_sizes[0]) == examples:
        order = _sorted(packed, examples) if order is None else order
        owners = rows_of(order, packed.batch_sizes)
        if not in_order(owners, examples):
            label(packed.data, owners)


def _label_pack(outputs: Any, examples: int, x: Tensor, _: Any, batch_first: bool) -> None:
    """After `torch._pack_padded_sequence`."""
    if x.dim() < 2 or x.shape[0 if batch_first else 1] != examples:
        return
    order = examples_of(x) if batch_first else columns_of(x)
    order = torch.arange(examples, device=x.device) if order is None else order
    label_packed(PackedSequence(*outputs), order, examples)


def _label_pad(
    outputs: Any, examples: int, data: Tensor, sizes: Tensor, batch_first: bool, *_: Any
) -> None:
    """After `torch._pad_packed_sequence`."""
    owners = examples_of(data)
    if owners is None or not len(sizes):
        return
    order = owners[: int(sizes[0])]
    if not in_order(order, examples):
        label(outputs[1], order.to(outputs[1].device))
        (label if batch_first else label_columns)(outputs[0], order)


_SELECTING = {torch.index_select, Tensor.index_select}
_TRANSPOSING = {torch.transpose, Tensor.transpose}
_PACKING: dict[Any, Callable[..., None]] = {
    torch._pack_padded_sequence: _label_pack,
    torch._pad_packed_sequence: _label_pad,
}
CHANGING_ROWS = {Tensor.__getitem__, *_SELECTING, *_TRANSPOSING, *_PACKING}
"""Operations that choose rows or exchange dimensions."""


def owners_after(
    func: Any, args: Any, kwargs: Any, outputs: Any, examples: int, *, rows: bool, inside: bool
) -> Tensor | None:
    """The example of each row of the outputs, None where they are those of a batch.

    `rows`: the first dimension of the input is known to be the examples. `inside`: the model, not
    the loop around it, runs the operation.
    """
    x = args[0] if args else kwargs["input"]
    owners = examples_of(x)
    if func in _PACKING:
        if inside or rows or owners is not None:
            _PACKING[func](outputs, examples, *args, **kwargs)
        return None
    if func in _TRANSPOSING:
        if set(args[1:]) != {0, 1}:
            return owners
        if owners is not None:
            label_columns(outputs, owners)
        return columns_of(x)
    dim, index = _selection(func, args, kwargs)
    if dim != 0:
        columns = isinstance(index, Tensor) and dim == 1
        order = reordered(x, index, examples) if columns else None
        if order is not None and not in_order(order, examples):
            label_columns(outputs, order)
        return owners
    if isinstance(index, int):
        return columns_of(x)  # the state of one layer
    if not isinstance(index, tuple | Tensor):
        return owners
    found = picked(x, index, examples) if rows or owners is not None else None
    return None if found is None or in_order(found, examples) else found


def _selection(func: Any, args: Any, kwargs: Any) -> tuple[int, Any]:
    """The dimension and the index of a choice of rows or columns."""
    if func in _SELECTING:
        given = dict(zip(("input", "dim", "index"), args, strict=False)) | kwargs
        return given["dim"], given["index"]
    index = args[1]
    if isinstance(index, tuple) and len(index) > 1 and isinstance(index[0], slice):
        return (1, index[1]) if index[0] == slice(None) else (0, index[0])
    return 0, index


def run_packed(
    rule: Callable[..., Any], examples: int, packed: PackedSequence, hx: Any = None
) -> Any:
    """A recurrent layer whose rule expects `sorted_indices` to sort examples, not sorted rows."""
    owners = examples_of(packed.data)
    order = None if owners is None else owners[: int(packed.batch_sizes[0])]
    if order is None or torch.equal(order, _sorted(packed, len(order))):
        outputs, states = rule(packed, hx)
        label_packed(outputs, order, examples)
        return outputs, states
    given = order if packed.unsorted_indices is None else order[packed.unsorted_indices]
    hx = _each(lambda state: state.index_select(1, given.argsort()), hx)
    sequences = PackedSequence(packed.data, packed.batch_sizes, order, order.argsort())
    outputs, states = rule(sequences, hx)
    again = PackedSequence(
        outputs.data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices
    )
    label_packed(again, order, examples)
    return again, _each(lambda state: by_column(state, given), states)


def _each(function: Callable[[Tensor], Tensor], states: Any) -> Any:
    if states is None:
        return None
    return tuple(map(function, states)) if isinstance(states, tuple) else function(states)


def _sorted(packed: PackedSequence, count: int) -> Tensor:
    order = packed.sorted_indices
    return torch.arange(count, device=packed.data.device) if order is None else order
