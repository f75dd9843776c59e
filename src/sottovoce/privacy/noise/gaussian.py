"""Gaussian noise from secure bits, faster than numpy's generator: drawn, or added in place.

The ziggurat method (Marsaglia and Tsang 2000), vectorised: `Proposer` makes a candidate from every
random word, and `_settle` resolves the few that fall into the wedge of a layer or the tail. See
`gaussian_into` for the compiled kernel.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce._validate import Shape
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise.kernel import kernel_for
from sottovoce.privacy.noise.source import BLOCK, NoiseSource


@dataclass(frozen=True, slots=True)
class WordLayout:
    """How the bits of one random word are used for a floating point type."""

    word: type[np.unsignedinteger[Any]]
    signed: type[np.signedinteger[Any]]
    mantissa: int

    @property
    def shift(self) -> int:
        """The shift that leaves a sign and `mantissa` bits; the last bit is set to make j odd.

        So `mantissa` random bits are used, none of which selects the layer.
        """
        return 8 * np.dtype(self.word).itemsize - self.mantissa - 1


LAYOUTS: dict[np.dtype[Any], WordLayout] = {
    np.dtype(np.float32): WordLayout(np.uint32, np.int32, mantissa=24),
    np.dtype(np.float64): WordLayout(np.uint64, np.int64, mantissa=53),
}


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Candidates that may lie outside the density: their positions, layers and values."""

    position: NDArray[np.intp]
    layer: NDArray[np.intp]
    candidate: NDArray[np.float64]  # for a standard deviation of 1


class Proposer:
    """Writes candidates block by block into an array of one type, scaled by `std`.

    The low eight bits of a word choose a layer of the ziggurat; other bits, a sign and a mantissa,
    choose a point across the layer. Nearly all candidates (98.5 %) lie inside the density at any
    height of the layer and are final. The others are returned as `Unsettled`.
    """

    def __init__(self, dtype: np.dtype[Any], std: float, size: int) -> None:
        self.layout = LAYOUTS[dtype]
        edge, unit = ziggurat().edge, 2.0**-self.layout.mantissa
        # A candidate is j * step[layer] with an odd integer j, |j| < 2**mantissa: odd, so that the
        # values are symmetric about 0 and as fine as the type allows. Those with
        # |j| < safe[layer] are narrower than the next layer, and so inside the density.
        self.unit_step = edge[:-1] * unit
        self.step = (self.unit_step * std).astype(dtype)
        self.safe = np.floor(edge[1:] / edge[:-1] / unit).astype(dtype)

        size = min(size, BLOCK)
        self.bits = np.empty(size, self.layout.word)
        self.layer = np.empty(size, np.intp)
        self.j = np.empty(size, dtype)
        self.looked_up = np.empty(size, dtype)
        self.outside = np.empty(size, np.bool_)

    def propose(self, flat: NDArray[Any], source: NoiseSource) -> Unsettled:
        """Write a candidate to every position of `flat`."""
        found = [self._block(flat, start, source) for start in range(0, flat.size, BLOCK)]
        return Unsettled(
            np.concatenate([block.position for block in found]),
            np.concatenate([block.layer for block in found]),
            np.concatenate([block.candidate for block in found]),
        )

    def _block(self, flat: NDArray[Any], start: int, source: NoiseSource) -> Unsettled:
        out = flat[start : start + BLOCK]
        n = out.size
        bits, layer, j = self.bits[:n], self.layer[:n], self.j[:n]
        looked_up, outside = self.looked_up[:n], self.outside[:n]
        signed = bits.view(self.layout.signed)

        source.fill(bits)
        np.bitwise_and(signed, self.layout.signed(LAYERS - 1), out=layer)
        np.right_shift(signed, self.layout.signed(self.layout.shift), out=signed)
        np.bitwise_or(signed, self.layout.signed(1), out=signed)
        np.copyto(j, signed)

        # mode="clip" skips the bounds check; the indices are always valid.
        self.step.take(layer, out=looked_up, mode="clip")
        np.multiply(j, looked_up, out=out)
        self.safe.take(layer, out=looked_up, mode="clip")
        np.abs(j, out=j)
        np.greater_equal(j, looked_up, out=outside)

        (position,) = np.nonzero(outside)
        chosen = layer[position]
        return Unsettled(position + start, chosen, signed[position] * self.unit_step[chosen])


LAYERS = 256


@dataclass(frozen=True, slots=True)
class Ziggurat:
    """The edges, widest first and ending at 0, and the heights f(edge) of the layers.

    Write f(x) = exp(-x**2 / 2). Layer i > 0 is a rectangle from 0 to `edge[i]` between the heights
    f(edge[i]) and f(edge[i + 1]); layer 0 is the strip under f(r), r = `edge[1]`, together with the
    tail beyond r. All have the area v, so a layer is chosen by eight fair bits. Layer 0 is treated
    as a rectangle too, of width `edge[0]` = v / f(r), whose part beyond r represents the tail.
    """

    edge: NDArray[np.float64]
    height: NDArray[np.float64]

    @property
    def tail_start(self) -> float:
        return float(self.edge[1])


@cache
def ziggurat() -> Ziggurat:
    """Build the layers from first principles: find the r at which 256 of them close at f(0) = 1.

    >>> ziggurat().tail_start, ziggurat().edge.shape
    (3.65415288536..., (257,))
    """
    too_small, too_large = 3.0, 4.0
    while too_small < (r := (too_small + too_large) / 2) < too_large:
        # A larger r gives smaller layers, whose stack ends below f(0) = 1.
        if _stack(r)[-1] > 0:
            too_large = r
        else:
            too_small = r
    edge = np.array([*_stack(too_large)[:-1], 0.0])  # too large by a rounding error only
    return Ziggurat(edge, np.exp(-(edge**2) / 2))


def _stack(r: float) -> list[float]:
    """The edges of 256 layers of equal area over a base strip that ends at r, from the bottom up.

    The last number is where the top layer meets f: above 0 if the stack ends below f(0), 0 if it
    reaches or exceeds it.
    """
    area = r * _density(r) + math.sqrt(math.pi / 2) * math.erfc(r / math.sqrt(2))
    edges = [area / _density(r), r]
    while len(edges) <= LAYERS:
        top = _density(edges[-1]) + area / edges[-1] if edges[-1] > 0 else 1.0
        edges.append(math.sqrt(-2 * math.log(top)) if top < 1 else 0.0)
    return edges


def _density(x: float) -> float:
    return math.exp(-x * x / 2)


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

    The ziggurat gives a normal variable up to floating-point rounding: a float32 value uses 24 bits
    within its layer, a float64 value 53. That rounding is visible in the lowest bits of a sum
    (Mironov 2012), and no accountant covers it; where it matters, release integers with noise from
    `discrete`.

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

    A seed gives the same noise for the same sequence of calls; 10 values followed by 20 differ from
    30 at once.

    If the compiled kernel is available, it draws the float32 noise of every source keyed by the
    operating system; `kernel/gaussian.c` states its deviation from a normal variable. A seeded
    source always uses the ziggurat, so that a seed gives the same noise with and without the
    kernel.

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
    """Reject an unsuitable array before anything is written to it."""
    _validate.not_negative("std", std)
    if out.dtype not in LAYOUTS:
        raise InvalidInput(f"Expected an array of float32 or float64, got {out.dtype}.")
    if not out.flags.c_contiguous:
        raise InvalidInput("Expected a contiguous array, got a strided one: fill a copy of it.")
    if not out.flags.writeable:
        raise InvalidInput("Expected a writable array, got a read-only one: fill a copy of it.")
    if std > 0:
        # Beyond these limits noise would underflow or overflow.
        limits = np.finfo(out.dtype)
        least = float(limits.tiny) * 2.0 ** (LAYOUTS[out.dtype].mantissa + 3)
        _validate.between("std", std, least, float(limits.max) / 64)


def _settle(unsettled: Unsettled, source: NoiseSource) -> NDArray[np.float64]:
    """The final values of the candidates that may lie outside the density."""
    layers, layer, values = ziggurat(), unsettled.layer, unsettled.candidate
    # The height of a point in its layer is uniform; accept points under the density.
    low, high = layers.height[layer], layers.height[layer + 1]
    height = low + (high - low) * source.uniform(layer.size)
    outside = height >= np.exp(-(values**2) / 2)

    # In the lowest layer, points beyond the last edge become draws from the tail.
    in_tail = layer == 0
    values[in_tail] = np.copysign(_tail(int(in_tail.sum()), source), values[in_tail])

    again = outside & ~in_tail
    values[again] = gaussian(int(again.sum()), 1.0, source)
    return values


def _tail(n: int, source: NoiseSource) -> NDArray[np.float64]:
    """Normal variables above the last edge of the ziggurat (Marsaglia 1964).

    An exponential variable x with rate r has the density of r + x in the tail but for the factor
    exp(-x**2 / 2), which is the probability that an exponential y exceeds x**2 / 2.
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
    """Add independent Gaussian noise to every array in place, each with its own standard deviation.

    All arguments are checked first: if one array is invalid, none is changed.

    No noise array of the size of the data is allocated. The compiled kernel adds to all float32
    arrays in one call; without it, noise is drawn in blocks that span array boundaries, so that a
    thousand small arrays cost no more than one large array.

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
