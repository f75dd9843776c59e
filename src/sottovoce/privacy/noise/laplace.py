"""Laplace noise by inversion: a random sign times scale times the logarithm of a uniform variable.

The uniform variable is (k + 1/2) / 2**63 with 63 random bits k. It is never 0, so no value is
infinite, and its resolution is the same near 0, so the tail is accurate up to 44 scales.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce._validate import Shape
from sottovoce.privacy.noise.source import BLOCK, NoiseSource


def laplace(shape: Shape, scale: float, source: NoiseSource) -> NDArray[np.float64]:
    """Independent Laplace variables, density exp(-|x| / scale) / (2 scale), in float64.

    >>> noise = laplace((1000, 100), 2.0, NoiseSource.seeded(7))
    >>> noise.shape, round(float(abs(noise).mean()), 2)
    ((1000, 100), 2.0)
    """
    limits = np.finfo(np.float64)
    _validate.positive("scale", scale)
    _validate.between("scale", scale, float(limits.tiny), float(limits.max) / 64)
    out = np.empty(_validate.shape(shape))
    flat = out.reshape(-1)
    scratch = np.empty((2, min(flat.size, BLOCK)), np.uint64)
    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK]
        bits, k = scratch[:, : block.size]
        source.fill(bits)
        np.right_shift(bits, np.uint64(1), out=k)
        np.copyto(block, k.view(np.int64))
        block += 0.5
        block *= 2.0**-63
        np.log(block, out=block)
        block *= -scale
        # The remaining bit becomes the sign, which is the highest bit of a double.
        np.left_shift(bits, np.uint64(63), out=bits)
        np.bitwise_or(block.view(np.uint64), bits, out=block.view(np.uint64))
    return out
