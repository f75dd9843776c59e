"""Gaussian noise from secure bits, faster than numpy draws it from insecure ones.

The ziggurat method (Marsaglia and Tsang 2000) on whole arrays: `_candidates` makes a value out of
every random word, and the few that fall into the wedge of a layer, or stand for the tail, are
settled here, all together. The result is a normal variable up to the rounding of its floating
point type: a float32 value comes from 24 bits within its layer, a float64 value from 53. That
rounding is visible in the lowest bits of a sum (Mironov 2012), and no accountant counts it; where
it matters, release whole numbers with noise from `discrete`.

Where the compiled kernel was built, it draws the float32 noise of every source that is keyed by the
operating system; `kernel/gaussian.c` says how far that is from a normal variable. A seeded source
always draws by the ziggurat, so that a seed means the same noise with and without the kernel.
"""

from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce._validate import Shape
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise._candidates import LAYOUTS, Proposer, Unsettled
from sottovoce.privacy.noise._ziggurat import ziggurat
from sottovoce.privacy.noise.kernel import kernel_for
from sottovoce.privacy.noise.source import NoiseSource

Float = TypeVar("Float", np.float32, np.float64)


@overload
def gaussian(shape: Shape, std: float, source: NoiseSource) -> NDArray[np.float64]: ...
@overload
def gaussian(
    shape: Shape, std: float, source: NoiseSource, dtype: type[Float]
) -> NDArray[Float]: ...


def gaussian(
    shape: Shape,
    std: float,
    source: NoiseSource,
    dtype: type[np.floating[Any]] = np.float64,
) -> NDArray[Any]:
    """Independent normal variables with mean 0 and standard deviation `std`.

    >>> noise = gaussian((1000, 100), 2.0, NoiseSource.seeded(7))
    >>> noise.shape, round(float(noise.std()), 2)
    ((1000, 100), 2.0)
    >>> gaussian(3, -1.0, NoiseSource())
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected std >= 0, got -1.
    """
    out = np.empty(_validate.shape(shape), dtype)
    gaussian_into(out, std, source)
    return out


def gaussian_into(out: NDArray[Any], std: float, source: NoiseSource) -> None:
    """Overwrite a contiguous float32 or float64 array with Gaussian noise.

    A seed gives the same noise for the same sequence of calls; but 10 values and then 20 are not
    the same as 30 at once.

    >>> out = np.empty(4, np.float32)
    >>> gaussian_into(out, 0.0, NoiseSource())
    >>> out.tolist()
    [0.0, 0.0, 0.0, 0.0]
    """
    check(out, std)
    flat = out.reshape(-1)
    if std == 0 or not flat.size:
        flat.fill(0)
        return
    if kernel := kernel_for(out.dtype, source):
        kernel.fill(flat, std, source.fresh_key())
        return
    unsettled = Proposer(out.dtype, std, flat.size).propose(flat, source)
    if unsettled.position.size:
        flat[unsettled.position] = std * _settle(unsettled, source)


def check(out: NDArray[Any], std: float) -> None:
    """Refuse an array that cannot take this noise, before anything is written to it."""
    _validate.not_negative("std", std)
    if out.dtype not in LAYOUTS:
        raise InvalidInput(f"Expected an array of float32 or float64, got {out.dtype}.")
    if not out.flags.c_contiguous:
        raise InvalidInput("Expected a contiguous array, got a strided one: fill a copy of it.")
    if not out.flags.writeable:
        raise InvalidInput("Expected a writable array, got a read-only one: fill a copy of it.")
    if std > 0:
        # Beyond these limits noise would be rounded to nothing, or to infinity.
        limits = np.finfo(out.dtype)
        least = float(limits.tiny) * 2.0 ** (LAYOUTS[out.dtype].mantissa + 3)
        _validate.between("std", std, least, float(limits.max) / 64)


def _settle(unsettled: Unsettled, source: NoiseSource) -> NDArray[np.float64]:
    """The final values of the candidates that may lie outside the density."""
    layers, layer, values = ziggurat(), unsettled.layer, unsettled.candidate
    # The height of a point in its layer is uniform; it counts if it lies under the density.
    low, high = layers.height[layer], layers.height[layer + 1]
    height = low + (high - low) * source.uniform(layer.size)
    outside = height >= np.exp(-(values**2) / 2)

    # In the lowest layer, everything beyond the last edge stands for a draw from the tail.
    in_tail = layer == 0
    values[in_tail] = np.copysign(_tail(int(in_tail.sum()), source), values[in_tail])

    again = outside & ~in_tail
    values[again] = gaussian(int(again.sum()), 1.0, source)
    return values


def _tail(n: int, source: NoiseSource) -> NDArray[np.float64]:
    """Normal variables above the last edge of the ziggurat (Marsaglia 1964).

    An exponential variable x with rate r has the density of r + x in the tail but for the factor
    exp(-x**2 / 2), which is the chance of an exponential y to exceed x**2 / 2.
    """
    r = ziggurat().tail_start
    values, pending = np.empty(n), np.arange(n)
    while pending.size:
        x = -np.log1p(-source.uniform(pending.size)) / r
        y = -np.log1p(-source.uniform(pending.size))
        accepted = y > x**2 / 2
        values[pending[accepted]] = r + x[accepted]
        pending = pending[~accepted]
    return values
