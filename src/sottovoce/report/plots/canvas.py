"""The canvas of a chart: frame, grid, labels, lines and markers.

Elements are built as XML, so text from files is escaped. Colours are CSS classes; the style sheet
defines them for light mode, dark mode and print.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as Xml

from markupsafe import Markup

ZERO_GUTTER = 26.0
NONE_GUTTER = 50.0
# Larger values are drawn at the edge: an axis up to 10^800 would be useless.
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
        """The position of a value; values outside the range are drawn at the edge."""
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
    """A logarithmic axis of epsilon with separate columns for zero and for no guarantee."""

    inner: Axis
    zero: float | None
    none: float | None

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float) -> "EpsilonAxis":
        """An axis that includes all values.

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
    """The range with margins, at least one decade wide."""
    low, high = low / 1.6, high * 1.6
    if high / low < 10:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(10), middle * math.sqrt(10)
    return low, high


def around(values: Sequence[float], *, zero: bool = False) -> tuple[float, float]:
    """The ends of a linear axis, with margins around the values.

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


WIDTH = 360.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 14.0, 24.0, 42.0
SERIES = 6

Point = tuple[float, float]


class Canvas:
    """An SVG image with a title and a text description for screen readers."""

    def __init__(self, title: str, description: str, height: float = 250.0) -> None:
        self.height = height
        self._root = Xml.Element(
            "svg",
            {
                "viewBox": f"0 0 {WIDTH:g} {height:g}",
                "role": "img",
                "class": "chart",
                "aria-label": f"{title}. {description}",
            },
        )
        Xml.SubElement(self._root, "title").text = title
        Xml.SubElement(self._root, "desc").text = description

    @property
    def inner(self) -> tuple[float, float, float, float]:
        """Left, right, top and bottom of the frame."""
        return LEFT, WIDTH - RIGHT, TOP, self.height - BOTTOM

    def markup(self) -> Markup:
        return Markup(Xml.tostring(self._root, encoding="unicode"))

    def element(self, tag: str, kind: str, **attributes: float | str) -> Xml.Element:
        values = {
            name.replace("_", "-"): f"{value:.5g}" if isinstance(value, float | int) else value
            for name, value in attributes.items()
        }
        return Xml.SubElement(self._root, tag, {"class": kind, **values})

    def text(self, x: float, y: float, words: str, kind: str = "label", anchor: str = "") -> None:
        more = {"text_anchor": anchor} if anchor else {}
        self.element("text", kind, x=x, y=y, **more).text = words

    def rule(self, start: Point, end: Point, kind: str = "grid") -> None:
        self.element("line", kind, x1=start[0], y1=start[1], x2=end[0], y2=end[1])

    def line(self, points: Sequence[Point], kind: str) -> None:
        path = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
        self.element("polyline", kind, points=path)

    def area(self, points: Sequence[Point], kind: str) -> None:
        path = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
        self.element("polygon", kind, points=path)

    def mark(self, x: float, y: float, series: int, size: float = 4.5) -> None:
        """The marker of a series, by shape and colour."""
        kind = f"mark s{series % SERIES}"
        match series % 4:
            case 0:
                self.element("circle", kind, cx=x, cy=y, r=size)
            case 1:
                side = size * 1.7
                self.element("rect", kind, x=x - side / 2, y=y - side / 2, width=side, height=side)
            case 2:
                self.area(_polygon(x, y, size * 1.3, 3), kind)
            case _:
                self.area(_polygon(x, y, size * 1.3, 4), kind)

    def x_axis(self, axis: Axis | EpsilonAxis, label: str, ticks: Iterable[str] = ()) -> None:
        """Grid lines, tick labels below, and the axis label."""
        left, right, top, bottom = self.inner
        named = list(ticks) or [tick_label(tick) for tick in axis.ticks()]
        for tick, name in zip(axis.ticks(), named, strict=True):
            self.rule((axis(tick), top), (axis(tick), bottom))
            # Keep the last tick label inside the image.
            place = min(axis(tick), WIDTH - 3.2 * len(name))
            self.text(place, bottom + 15, name, "tick", "middle")
        if isinstance(axis, EpsilonAxis):
            self._gutters(axis)
        self.text((left + right) / 2, self.height - 6, label, "label", "middle")

    def y_axis(self, axis: Axis, label: str, ticks: Iterable[str] = ()) -> None:
        """Grid lines, tick labels at the left, and the axis label above, unrotated."""
        left, right, _, _ = self.inner
        named = list(ticks) or [tick_label(tick) for tick in axis.ticks()]
        for tick, name in zip(axis.ticks(), named, strict=True):
            self.rule((left, axis(tick)), (right, axis(tick)))
            self.text(left - 6, axis(tick) + 4, name, "tick", "end")
        self.text(2, 13, label, "label")

    def frame(self) -> None:
        left, right, top, bottom = self.inner
        self.rule((left, bottom), (right, bottom), "axis")
        self.rule((left, top), (left, bottom), "axis")

    def _gutters(self, axis: EpsilonAxis) -> None:
        _, right, top, bottom = self.inner
        if axis.none is not None:
            edge = axis.inner.end
            self.element("rect", "gutter", x=edge, y=top, width=right - edge, height=bottom - top)
            self.text(axis.none, bottom + 15, "none", "tick bad", "middle")
        if axis.zero is not None:
            self.rule((axis.zero, top), (axis.zero, bottom))
            self.text(axis.zero, bottom + 15, "0", "tick", "middle")


def tick_label(value: float) -> str:
    """A short tick label.

    >>> tick_label(0.5), tick_label(20000.0), tick_label(1e-5), tick_label(3e6)
    ('0.5', '20k', '1e-5', '3e6')
    """
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6 or size < 1e-3:
        mantissa, exponent = (
            f"{value:.2g}".split("e")
            if "e" in f"{value:.2g}"
            else (
                f"{value / 10 ** math.floor(math.log10(size)):g}",
                str(math.floor(math.log10(size))),
            )
        )
        return f"{mantissa}e{int(exponent)}"
    return f"{value / 1000:g}k" if size >= 1e4 else f"{value:g}"


def _polygon(x: float, y: float, size: float, corners: int) -> list[Point]:
    turns = [2 * math.pi * corner / corners - math.pi / 2 for corner in range(corners)]
    return [(x + size * math.cos(turn), y + size * math.sin(turn)) for turn in turns]
