"""The canvas of a chart: frame, grid, labels, lines and marks.

Elements are made as XML, so whatever text comes from a file is escaped. Colours are classes; the
page's style sheet gives them a value for light, dark and print.
"""

import math
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree as Xml

from markupsafe import Markup

from sottovoce.report.plots.axes import Axis, EpsilonAxis

WIDTH = 360.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 14.0, 24.0, 42.0
SERIES = 6

Point = tuple[float, float]


class Canvas:
    """An SVG picture with a title and a description for those who do not see it."""

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
        """The mark of a series: its form and colour."""
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
        """Grid lines and numbers below; the label under them."""
        left, right, top, bottom = self.inner
        named = list(ticks) or [tick_label(tick) for tick in axis.ticks()]
        for tick, name in zip(axis.ticks(), named, strict=True):
            self.rule((axis(tick), top), (axis(tick), bottom))
            # The last number would be cut off by the edge of the picture.
            place = min(axis(tick), WIDTH - 3.2 * len(name))
            self.text(place, bottom + 15, name, "tick", "middle")
        if isinstance(axis, EpsilonAxis):
            self._gutters(axis)
        self.text((left + right) / 2, self.height - 6, label, "label", "middle")

    def y_axis(self, axis: Axis, label: str, ticks: Iterable[str] = ()) -> None:
        """Grid lines and numbers at the left; the label above, where it reads without turning."""
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
    """A tick in few characters.

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
