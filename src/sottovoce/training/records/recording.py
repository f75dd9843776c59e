"""Choose the smaller form of a gradient, its factors or itself, and hand it to the tape."""

from collections.abc import Sequence

import torch
from torch import Tensor

from sottovoce.training.records.grouping import norm_dtype
from sottovoce.training.records.instantiated import Instantiated
from sottovoce.training.records.lookup import Lookup, add_rows
from sottovoce.training.records.outer import OuterProduct, formed_is_smaller
from sottovoce.training.records.tape import Tape


def record_outer_product(
    tape: Tape,
    weight: Tensor,
    biases: Sequence[Tensor | None],
    inputs: Tensor,
    gradients: Tensor,
) -> None:
    """W multiplied `inputs`, each bias was added, and `gradients` came back.

    Both are [examples, rows, width]; W is [p, d], or [p, ...] with d numbers for each output.
    """
    added = [bias for bias in biases if bias is not None and bias.requires_grad]
    grouping = tape.grouping
    form = all(
        formed_is_smaller(inputs.shape[1] * bucket.size, weight.shape)
        for bucket in grouping.buckets
    )
    # Cross terms are between uses of the same parameters, so what is tied elsewhere stays apart.
    together = weight.requires_grad and not form and tape.belong_together(weight, *added)
    product = OuterProduct(
        inputs, gradients, len(added) if together else 0, weight.shape, grouping, tape.grams
    )
    if together:
        tape.add((weight, *added), product)
        return
    if weight.requires_grad:
        tape.add((weight,), Instantiated(product.instantiate()) if form else product)
    if added:
        summed = grouping.sums(gradients.sum(1, dtype=norm_dtype(gradients)))
        for bias in added:
            tape.add((bias,), Instantiated(summed))


def record_lookup(
    tape: Tape, table: Tensor, ids: Tensor, gradients: Tensor, padding_idx: int | None
) -> None:
    """`ids` [examples, rows] were looked up, and `gradients` [examples, rows, width] came back."""
    size, count = table.shape[0], tape.grouping.count
    keys = (tape.grouping.labels.unsqueeze(1) * size + ids).flatten()
    rows = gradients.to(norm_dtype(gradients)).flatten(0, 1)
    if padding_idx is not None:
        kept = ids.flatten() != padding_idx
        keys, rows = keys[kept], rows[kept]
    if count * size <= len(keys):
        formed = add_rows(rows, keys, count * size)
        tape.add((table,), Instantiated(formed.view(count, *table.shape)))
        return
    keys, place = torch.unique(keys, return_inverse=True)
    merged = add_rows(rows, place, len(keys))
    groups = keys.div(size, rounding_mode="floor")
    tape.add((table,), Lookup(groups, keys - groups * size, merged, count, table.shape))
