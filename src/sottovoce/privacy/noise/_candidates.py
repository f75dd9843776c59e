"""The quick part of the ziggurat method: one random word, one candidate.

The low eight bits of a word choose a layer of the ziggurat; other bits, a sign and a mantissa,
choose a point across the layer. Nearly all candidates (98.5 %) lie inside the density, whatever
their height in the layer, and are final. The others are handed back to be settled.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.noise._ziggurat import LAYERS, ziggurat
from sottovoce.privacy.noise.source import BLOCK, NoiseSource


@dataclass(frozen=True, slots=True)
class WordLayout:
    """How the bits of one random word are used for a floating point type."""

    word: type[np.unsignedinteger[Any]]
    signed: type[np.signedinteger[Any]]
    mantissa: int

    @property
    def shift(self) -> int:
        """Leaves a sign and `mantissa` bits, the last of which is overwritten to make j odd.

        So `mantissa` random bits are used, and none of them is one of the layer's eight.
        """
        return 8 * np.dtype(self.word).itemsize - self.mantissa - 1


LAYOUTS: dict[np.dtype[Any], WordLayout] = {
    np.dtype(np.float32): WordLayout(np.uint32, np.int32, mantissa=24),
    np.dtype(np.float64): WordLayout(np.uint64, np.int64, mantissa=53),
}


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Candidates that may lie outside the density: where they stand, and what they are."""

    position: NDArray[np.intp]
    layer: NDArray[np.intp]
    candidate: NDArray[np.float64]  # for a standard deviation of 1


class Proposer:
    """Writes candidates block by block into an array of one type, scaled by `std`."""

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
        """Write a candidate into every place of `flat`."""
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

        # mode="clip" spares the check of the indices, which cannot be wrong.
        self.step.take(layer, out=looked_up, mode="clip")
        np.multiply(j, looked_up, out=out)
        self.safe.take(layer, out=looked_up, mode="clip")
        np.abs(j, out=j)
        np.greater_equal(j, looked_up, out=outside)

        (position,) = np.nonzero(outside)
        chosen = layer[position]
        return Unsettled(position + start, chosen, signed[position] * self.unit_step[chosen])
