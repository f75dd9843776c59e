"""Batches of like length, in an order that the seed decides."""

import random
from collections.abc import Sequence

POOL = 20
"""Batches that are sorted by length together: padding is rare, and batches still differ."""


def of_like_length(
    lengths: Sequence[int], batch_size: int, draws: random.Random
) -> list[list[int]]:
    """All numbers of `lengths` once, in batches.

    >>> batches = of_like_length([3, 9, 3, 9], 2, random.Random(0))
    >>> sorted(sorted(batch) for batch in batches)
    [[0, 2], [1, 3]]
    """
    order = list(range(len(lengths)))
    draws.shuffle(order)
    batches = []
    for start in range(0, len(order), batch_size * POOL):
        pool = sorted(order[start : start + batch_size * POOL], key=lengths.__getitem__)
        batches += [pool[at : at + batch_size] for at in range(0, len(pool), batch_size)]
    draws.shuffle(batches)
    return batches
