"""A quantity by step or round of a run: epsilon, loss, word error rate."""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from sottovoce.report.numbers import Measured, short
from sottovoce.report.plots.canvas import Axis, Canvas, around

_MAX_MARKERS = 24


def history_chart(
    points: Sequence[tuple[float, Measured]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    series: int = 0,
    from_zero: bool = True,
    limit: tuple[float, str] | None = None,
    shown: Callable[[float], str] = short,
) -> Markup:
    """A line with a band for its interval, and a labelled horizontal rule at `limit`.

    `shown` formats values for the text description.
    """
    first, last = points[0], points[-1]
    described = (
        f"From {shown(first[1].value)} at {short(first[0])} to {shown(last[1].value)} at "
        f"{short(last[0])}, {len(points)} points."
    )
    canvas = Canvas(title, described)
    left, right, top, bottom = canvas.inner
    values = [each for _, m in points for each in (m.value, m.low, m.high) if each is not None]
    ends = around([*values, *([limit[0]] if limit else [])], zero=from_zero)
    steps = [step for step, _ in points]
    x_low, x_high = (0.0 if from_zero and min(steps) >= 0 else min(steps)), max(steps)
    x = Axis(x_low, x_high if x_high > x_low else x_low + 1, left, right)
    y = Axis(*ends, bottom, top)
    canvas.x_axis(x, x_label)
    canvas.y_axis(y, y_label)
    upper = [(x(step), y(m.high)) for step, m in points if m.high is not None]
    lower = [(x(step), y(m.low)) for step, m in points if m.low is not None]
    if len(upper) == len(points) > 1:
        canvas.area([*upper, *reversed(lower)], f"band s{series}")
    if limit is not None:
        canvas.rule((left, y(limit[0])), (right, y(limit[0])), "limit")
        canvas.text(right, y(limit[0]) - 5, limit[1], "tick", "end")
    canvas.line([(x(step), y(m.value)) for step, m in points], f"line s{series}")
    if len(points) <= _MAX_MARKERS:
        for step, measured in points:
            canvas.mark(x(step), y(measured.value), series, 3)
    canvas.frame()
    return canvas.markup()
