"""A typed wrapper of `torch.autograd.Function.apply`, and an allocator for outputs.

torch requests blocks aligned to 64 bytes. glibc allocates slightly more and trims the rest, so a
freed block is always too small for the next request of the same size. In a backward pass that keeps
its gradients, this fragments memory. Blocks that are aligned manually, with some slack, can be
reused for requests of the same size.
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
# The overhead that glibc adds to a request: alignment, minimum block size and header.
_SLACK = 256
# Fragmentation by smaller blocks is negligible.
_SMALL = 1 << 16


def empty_output(shape: Sequence[int], like: Tensor) -> Tensor:
    """`like.new_empty(shape)`.

    >>> empty_output((2, 40000), torch.ones(1)).shape
    torch.Size([2, 40000])
    """
    size = math.prod(shape) * like.element_size()
    if like.device.type != "cpu" or size < _SMALL:
        return like.new_empty(shape)
    block = torch.from_numpy(np.empty(size + _SLACK, np.uint8))
    start = -block.data_ptr() % _ALIGNMENT
    # Not a view: autograd restricts in-place operations on views.
    strides = torch.empty(shape, device="meta").stride()
    offset = start // like.element_size()
    return like.new_empty(0).set_(block.untyped_storage(), offset, shape, strides)
