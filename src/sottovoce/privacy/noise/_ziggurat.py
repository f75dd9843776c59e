"""The ziggurat of the normal density: 256 layers of equal area (Marsaglia and Tsang 2000).

Write f(x) = exp(-x**2 / 2). Layer i > 0 is a rectangle from 0 to `edge[i]` between the heights
f(edge[i]) and f(edge[i + 1]); layer 0 is the strip under f(r), r = `edge[1]`, together with the
tail beyond r. All have the area v, so a layer is chosen by eight fair bits. Layer 0 is treated as
a rectangle too, of width `edge[0]` = v / f(r), whose part beyond r stands for the tail.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

LAYERS = 256


@dataclass(frozen=True, slots=True)
class Ziggurat:
    """The edges, widest first and ending at 0, and the heights f(edge) of the layers."""

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
        # A larger r makes smaller layers, and a stack of them stops short of the summit.
        if _stack(r)[-1] > 0:
            too_large = r
        else:
            too_small = r
    edge = np.array([*_stack(too_large)[:-1], 0.0])  # too large by a rounding error only
    return Ziggurat(edge, np.exp(-(edge**2) / 2))


def _stack(r: float) -> list[float]:
    """The edges of 256 layers of equal area over a base strip that ends at r, from the bottom up.

    The last number is where the top layer meets f: above 0 if the stack stops short of the summit,
    0 if it reaches or overshoots it.
    """
    area = r * _density(r) + math.sqrt(math.pi / 2) * math.erfc(r / math.sqrt(2))
    edges = [area / _density(r), r]
    while len(edges) <= LAYERS:
        top = _density(edges[-1]) + area / edges[-1] if edges[-1] > 0 else 1.0
        edges.append(math.sqrt(-2 * math.log(top)) if top < 1 else 0.0)
    return edges


def _density(x: float) -> float:
    return math.exp(-x * x / 2)
