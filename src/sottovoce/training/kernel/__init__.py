"""The compiled kernels of training: optional parts that read and write float32 tensors in place.

Each has a file in C that says what it computes, and torch computes the same without it. A library
that does not compute what torch does is not used.
"""

import torch
from torch import Tensor

# So many products take a third of a millisecond; to start a thread takes a tenth of that.
_PRODUCTS_OF_A_THREAD = 1 << 23


def readable(*tensors: Tensor) -> bool:
    """Whether a kernel can read these by their addresses, if their strides are known to it."""
    return all(x.dtype == torch.float32 and x.is_cpu and not x.is_neg() for x in tensors)


def threads_for(products: int) -> int:
    return max(1, min(torch.get_num_threads(), products // _PRODUCTS_OF_A_THREAD))
