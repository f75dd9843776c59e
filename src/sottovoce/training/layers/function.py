"""A typed door to `torch.autograd.Function.apply`, which has no types.

torch asks for blocks that start at a multiple of 64 bytes. glibc looks for a little more than that
and cuts off the rest, so a block that was freed is always too small for the next request of its
size. In a backward pass that keeps its gradients, hole after hole would stay empty. A block that is
aligned by hand, with room to spare, fits its like and torch's own.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function


def apply(function: type[Function], *arguments: Any) -> Any:
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


_ALIGNMENT = 64
# What glibc adds to a request: the alignment, the smallest block it keeps, and its own notes.
_TO_SPARE = 256
# The holes of smaller blocks are too small to matter.
_SMALL = 1 << 16


def empty_output(shape: Sequence[int], like: Tensor) -> Tensor:
    """`like.new_empty(shape)`.

    >>> empty_output((2, 40000), torch.ones(1)).shape
    torch.Size([2, 40000])
    """
    size = math.prod(shape) * like.element_size()
    if like.device.type != "cpu" or size < _SMALL:
        return like.new_empty(shape)
    block = torch.from_numpy(np.empty(size + _TO_SPARE, np.uint8))
    start = -block.data_ptr() % _ALIGNMENT
    # Not a view: autograd adds up in place, and lets a user change in place, only what is whole.
    strides = torch.empty(shape, device="meta").stride()
    offset = start // like.element_size()
    return like.new_empty(0).set_(block.untyped_storage(), offset, shape, strides)
