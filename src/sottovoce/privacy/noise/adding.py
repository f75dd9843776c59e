"""Gaussian noise added in place to one or many arrays, for private sums and gradients.

No noise array of the size of the data is allocated. The compiled kernel adds to all float32 arrays
in one call; without it, noise is drawn in blocks that span array boundaries, so that a thousand
small arrays cost no more than one large array.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise.gaussian import LAYOUTS, check, gaussian_into
from sottovoce.privacy.noise.kernel import kernel_for
from sottovoce.privacy.noise.source import BLOCK, NoiseSource

Arrays = Sequence[NDArray[Any]]


def gaussian_add(out: NDArray[Any], std: float, source: NoiseSource) -> None:
    """Add Gaussian noise to a contiguous float32 or float64 array, in place.

    >>> total = np.full(1000, 50.0)
    >>> gaussian_add(total, 2.0, NoiseSource.seeded(7))
    >>> round(float(total.mean())), round(float(total.std()))
    (50, 2)
    """
    gaussian_add_each([out], [std], source)


def gaussian_add_each(outs: Arrays, stds: Sequence[float], source: NoiseSource) -> None:
    """Add independent Gaussian noise to every array in place, each with its own standard
    deviation.

    All arguments are checked first: if one array is invalid, none is changed.

    >>> weight, bias = np.zeros((20, 30), np.float32), np.zeros(20)
    >>> gaussian_add_each([weight, bias], [1.0, 0.0], NoiseSource.seeded(7))
    >>> bool(weight.all()), bool(bias.any())
    (True, False)
    """
    if len(outs) != len(stds):
        raise InvalidInput(f"Expected one std for each of {len(outs)} arrays, got {len(stds)}.")
    for out, std in zip(outs, stds, strict=True):
        check(out, std)
    for dtype in LAYOUTS:
        chosen = [i for i, out in enumerate(outs) if out.dtype == dtype and out.size and stds[i]]
        if not chosen:
            continue
        flat, deviations = [outs[i].reshape(-1) for i in chosen], [stds[i] for i in chosen]
        if kernel := kernel_for(dtype, source):
            kernel.add(flat, deviations, source.fresh_key())
        else:
            _add_blocks(flat, deviations, source)


def _add_blocks(outs: Arrays, stds: Sequence[float], source: NoiseSource) -> None:
    pending = sum(out.size for out in outs)
    block = np.empty(min(pending, BLOCK), outs[0].dtype)
    unused = block[:0]
    for out, std in zip(outs, stds, strict=True):
        done = 0
        while done < out.size:
            if not unused.size:
                unused = block[:pending]
                gaussian_into(unused, 1.0, source)
                pending -= unused.size
            piece = out[done : done + unused.size]
            noise, unused = unused[: piece.size], unused[piece.size :]
            noise *= std
            piece += noise
            done += piece.size
