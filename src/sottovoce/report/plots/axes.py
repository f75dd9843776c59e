"""Axes: from values to places on the canvas, and the ticks between."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ZERO_GUTTER = 26.0
NONE_GUTTER = 50.0
# What is larger is drawn at the edge: an axis up to 10^800 would show nothing else.
LARGEST = 1e6


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic scale from `low` at pixel `start` to `high` at pixel `end`.

    >>> axis = Axis(0.01, 100, 0, 200, logarithmic=True)
    >>> axis(1.0), axis.ticks()
    (100.0, [0.01, 0.1, 1.0, 10.0, 100.0])
    >>> Axis(0, 9, 0, 90).ticks()
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value; what lies outside is put on the edge."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        return self._decades() if self.logarithmic else self._steps()

    def _steps(self) -> list[float]:
        rough = (self.high - self.low) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(step for step in (1, 2, 2.5, 5, 10) if step * power >= rough * 0.88) * power
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor((self.high - first * step) / step + 1e-9)
        return [float(f"{(first + place) * step:.12g}") for place in range(count + 1)]

    def _decades(self) -> list[float]:
        lowest, highest = math.log10(self.low), math.log10(self.high)
        each = max(1, math.ceil((highest - lowest) / 5))
        powers = range(math.ceil(lowest - 1e-9), math.floor(highest + 1e-9) + 1)
        ticks = [10.0**power for power in powers if power % each == 0]
        if len(ticks) >= 3 or highest - lowest > 3:
            return ticks
        finer = [digit * 10.0**power for power in range(-12, 13) for digit in (1, 2, 5)]
        return [tick for tick in finer if self.low * 0.999 <= tick <= self.high * 1.001]


@dataclass(frozen=True)
class EpsilonAxis:
    """A logarithmic axis of epsilon with a place of its own for zero, and one for no guarantee."""

    inner: Axis
    zero: float | None
    none: float | None

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float) -> "EpsilonAxis":
        """An axis that shows all of these.

        >>> axis = EpsilonAxis.over([0.0, 3.0, math.inf], 0, 300)
        >>> axis(0.0), axis(math.inf), 26 < axis(3.0) < 250
        (13.0, 275.0, True)
        """
        values = list(values)
        finite = [min(value, LARGEST) for value in values if 0 < value < math.inf]
        zero = none = None
        if any(value == 0 for value in values):
            zero, start = start + ZERO_GUTTER / 2, start + ZERO_GUTTER
        if any(math.isinf(value) for value in values):
            none, end = end - NONE_GUTTER / 2, end - NONE_GUTTER
        low, high = (min(finite), max(finite)) if finite else (1.0, 1.0)
        inner = Axis(*_widened(low, high), start, end, logarithmic=True)
        return cls(inner, zero, none)

    def __call__(self, epsilon: float) -> float:
        if epsilon == 0 and self.zero is not None:
            return self.zero
        if math.isinf(epsilon) and self.none is not None:
            return self.none
        return self.inner(epsilon)

    def ticks(self) -> list[float]:
        return self.inner.ticks()


def _widened(low: float, high: float) -> tuple[float, float]:
    """Some room on both sides, and a decade at least."""
    low, high = low / 1.6, high * 1.6
    if high / low < 10:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(10), middle * math.sqrt(10)
    return low, high


def around(values: Sequence[float], *, zero: bool = False) -> tuple[float, float]:
    """The ends of a linear axis with some room around the values.

    >>> around([2.0, 4.0], zero=True), around([1.0, 1.0])
    ((0.0, 4.32), (0.5, 1.5))
    """
    low, high = min(values), max(values)
    if zero:
        low = min(low, 0.0)
    if high == low:
        return (low - 0.5, high + 0.5)
    room = 0.08 * (high - low)
    return (low if zero and low == 0 else low - room, high + room)
