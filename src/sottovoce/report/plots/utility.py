"""A metric against epsilon."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from sottovoce.privacy.guarantee import rounded_up
from sottovoce.report.cross_run import Point
from sottovoce.report.numbers import short
from sottovoce.report.plots.canvas import Axis, Canvas, EpsilonAxis, around


def epsilon_chart(
    points: Sequence[Point],
    *,
    title: str,
    y_label: str,
    levels: Sequence[tuple[float, str]] = (),
) -> Markup:
    """One marker per run with its interval and its number on the page.

    Runs without a guarantee have a separate column.
    """
    canvas = Canvas(title, _described(points))
    left, right, top, bottom = canvas.inner
    values = [
        each
        for point in points
        for each in (point.measured.value, point.measured.low, point.measured.high)
        if each is not None
    ]
    x = EpsilonAxis.over([point.epsilon for point in points], left, right)
    y = Axis(*around([*values, *(level for level, _ in levels)]), bottom, top)
    canvas.x_axis(x, "true epsilon")
    canvas.y_axis(y, y_label)
    for level, name in levels:
        canvas.rule((left, y(level)), (right, y(level)), "limit")
        canvas.text(left + 4, y(level) - 4, name, "tick")
    ordered = sorted(points, key=lambda point: point.epsilon)
    finite = [point for point in ordered if not math.isinf(point.epsilon)]
    canvas.line([(x(p.epsilon), y(p.measured.value)) for p in finite], "trend")
    shifts = _shifts(ordered)
    for point in ordered:
        series = 1 if math.isinf(point.epsilon) else 0
        place = x(point.epsilon) + shifts[point.place]
        _bar(canvas, place, y, point, series)
        canvas.mark(place, y(point.measured.value), series)
        canvas.text(place + 7, y(point.measured.value) - 5, str(point.place), "number")
    canvas.frame()
    return canvas.markup()


def _bar(canvas: Canvas, place: float, y: Axis, point: Point, series: int) -> None:
    low, high = point.measured.low, point.measured.high
    if low is None or high is None:
        return
    canvas.rule((place, y(low)), (place, y(high)), f"bar s{series}")
    for end in (low, high):
        canvas.rule((place - 4, y(end)), (place + 4, y(end)), f"bar s{series}")


def _shifts(points: Sequence[Point]) -> dict[int, float]:
    """Horizontal offsets that keep runs of equal epsilon from overlapping."""
    groups: dict[float, list[int]] = {}
    for point in points:
        groups.setdefault(point.epsilon, []).append(point.place)
    return {
        place: 13 * (order - (len(members) - 1) / 2)
        for members in groups.values()
        for order, place in enumerate(members)
    }


def _described(points: Sequence[Point]) -> str:
    return "; ".join(
        f"{point.name}: {short(point.measured.value)}"
        + (
            " without a guarantee"
            if math.isinf(point.epsilon)
            else f" at epsilon {rounded_up(point.epsilon)}"
        )
        for point in points
    )
