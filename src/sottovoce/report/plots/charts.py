"""The charts of a report: quantities over a run, metrics against epsilon, ROC curves, verdicts."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sottovoce.audit.result import AttackOutcome
from sottovoce.privacy.guarantee import Claim, Guarantee, rounded_down, rounded_up
from sottovoce.report.cross_run import Point
from sottovoce.report.numbers import Measured, claimed_epsilon, percent, short
from sottovoce.report.plots.canvas import (
    LEFT,
    RIGHT,
    SERIES,
    WIDTH,
    Axis,
    Canvas,
    EpsilonAxis,
    around,
    tick_label,
)

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
    """A quantity by step or round of a run, such as epsilon, loss or word error rate.

    A line with a band for its interval, and a labelled horizontal rule at `limit`.

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


def epsilon_chart(
    points: Sequence[Point],
    *,
    title: str,
    y_label: str,
    levels: Sequence[tuple[float, str]] = (),
) -> Markup:
    """A metric against epsilon: one marker per run with its interval and its number on the page.

    Runs without a guarantee have a separate column.
    """
    canvas = Canvas(title, _described_points(points))
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


def _described_points(points: Sequence[Point]) -> str:
    return "; ".join(
        f"{point.name}: {short(point.measured.value)}"
        + (
            " without a guarantee"
            if math.isinf(point.epsilon)
            else f" at epsilon {rounded_up(point.epsilon)}"
        )
        for point in points
    )


_LOWEST = 1e-4
_POINTS = 60


def allowed(guarantee: Guarantee, false_positive_rate: float) -> float:
    """The highest true positive rate that the guarantee allows.

    If training is (epsilon, delta)-private for one record, the true positive rate of any test is at
    most min(e^epsilon f + delta, 1 - e^-epsilon (1 - delta - f)), where f is its false positive
    rate.

    >>> from sottovoce.privacy.guarantee import Relation, Unit
    >>> g = Guarantee(epsilon=math.log(3), delta=0.0, unit=Unit.EXAMPLE,
    ...               relation=Relation.ADD_OR_REMOVE, accountant="PLD")
    >>> round(allowed(g, 0.1), 6), round(allowed(g, 0.7), 6), allowed(g, 1.0)
    (0.3, 0.9, 1.0)
    """
    if not guarantee.holds or guarantee.epsilon > 700:
        return 1.0
    grown = math.exp(guarantee.epsilon)
    rising = grown * false_positive_rate + guarantee.delta
    flat = 1 - (1 - guarantee.delta - false_positive_rate) / grown
    return min(rising, flat, 1.0)


def roc_chart(attacks: Sequence[AttackOutcome], guarantee: Guarantee | None, title: str) -> Markup:
    """ROC curves of attacks on logarithmic axes, chance, and the region that the guarantee
    excludes.
    """
    described = "; ".join(
        f"{attack.attack}: AUC {attack.auc:.3f}, "
        + ", ".join(
            f"{percent(rate.true_positive_rate)} found at {percent(rate.false_positive_rate)}"
            for rate in attack.rates
        )
        for attack in attacks
    )
    canvas = Canvas(title, described, height=300)
    left, right, top, bottom = canvas.inner
    low = _lowest(attacks)
    x = Axis(low, 1.0, left, right, logarithmic=True)
    y = Axis(low, 1.0, bottom, top, logarithmic=True)
    canvas.x_axis(x, "false positive rate", map(_rate, x.ticks()))
    canvas.y_axis(y, "members found (true positive rate)", map(_rate, y.ticks()))
    rates = [low ** (1 - place / _POINTS) for place in range(_POINTS + 1)]
    if guarantee is not None and guarantee.holds:
        edge = [(x(rate), y(allowed(guarantee, rate))) for rate in rates]
        canvas.area([(left, top), *edge, (right, top)], "forbidden")
        canvas.line(edge, "limit")
    canvas.line([(x(rate), y(rate)) for rate in rates], "chance")
    for series, attack in enumerate(attacks):
        false, true = attack.curve
        corners = [
            (x(max(f, low)), y(max(t, low))) for f, t in zip(false, true, strict=True) if t >= low
        ]
        canvas.line(_steps(corners), f"line s{series % SERIES} d{series % SERIES}")
        for rate in attack.rates:
            if rate.resolved and rate.true_positive_rate >= low:
                canvas.mark(x(rate.false_positive_rate), y(rate.true_positive_rate), series, 3.5)
    canvas.frame()
    return canvas.markup()


def _lowest(attacks: Sequence[AttackOutcome]) -> float:
    """The lowest decade that the number of non-members can resolve, at most 1 %."""
    most = max(attack.non_members for attack in attacks)
    return min(max(10.0 ** math.floor(math.log10(1 / most)), _LOWEST), 0.01)


def _rate(rate: float) -> str:
    return f"{100 * rate:g} %"


def _steps(corners: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A step curve through the corners: nothing was measured in between."""
    stairs = list(corners[:1])
    for x, y in corners[1:]:
        stairs += [(x, stairs[-1][1]), (x, y)]
    return stairs


_ROW = 32.0
_EDGE = 12.0
_FOOT = 40.0
_LONGEST = 46
_LARGEST_CLAIM = 1e300


@dataclass(frozen=True)
class VerdictLine:
    """One line of the chart; an infinite epsilon means no guarantee."""

    label: str
    epsilon: float
    claim: Claim | None = None
    shown: float | None = None

    @property
    def claimed(self) -> float | None:
        """The claimed epsilon, finite: claims without bound are drawn at the right end."""
        return None if self.claim is None else min(self.claim.epsilon, _LARGEST_CLAIM)


def verdict_chart(lines: Sequence[VerdictLine]) -> Markup:
    """One row per stage: claimed epsilon, true epsilon and lower bound of the audit.

    A row has a label above its markers, on a common epsilon axis.
    """
    canvas = Canvas(
        "Claimed, true and audited epsilon", _described_lines(lines), _ROW * len(lines) + _FOOT
    )
    values = [
        value
        for line in lines
        for value in (line.epsilon, line.claimed, line.shown)
        if value is not None
    ]
    axis = EpsilonAxis.over(values, _EDGE, WIDTH - _EDGE)
    foot = canvas.height - _FOOT
    for tick in axis.ticks():
        canvas.rule((axis(tick), 0), (axis(tick), foot))
        canvas.text(axis(tick), foot + 14, tick_label(tick), "tick", "middle")
    if axis.zero is not None:
        canvas.rule((axis.zero, 0), (axis.zero, foot))
        canvas.text(axis.zero, foot + 14, "0", "tick", "middle")
    if axis.none is not None:
        start = axis.inner.end
        canvas.element("rect", "gutter", x=start, y=0, width=WIDTH - _EDGE - start, height=foot)
        canvas.text(axis.none, foot + 14, "none", "tick bad", "middle")
    for place, line in enumerate(lines):
        _draw(canvas, axis, line, _ROW * place)
    canvas.text((LEFT + WIDTH - RIGHT) / 2, canvas.height - 6, "epsilon", "label", "middle")
    return canvas.markup()


def _draw(canvas: Canvas, axis: EpsilonAxis, line: VerdictLine, top: float) -> None:
    label = line.label if len(line.label) <= _LONGEST else f"{line.label[: _LONGEST - 1]}…"
    canvas.text(_EDGE, top + 12, label, "row")
    y = top + 22
    if line.shown is not None:
        canvas.rule((axis(line.shown), y), (axis(line.epsilon), y), "between")
    if line.claimed is not None:
        canvas.mark(axis(line.claimed), y, 3, 5)
    if math.isinf(line.epsilon):
        place = axis(line.epsilon)
        for turn in (1, -1):
            canvas.rule((place - 5, y - 5 * turn), (place + 5, y + 5 * turn), "cross")
    else:
        canvas.mark(axis(line.epsilon), y, 0, 5)
    if line.shown is not None:
        canvas.mark(axis(line.shown), y, 2, 4)


def _described_lines(lines: Sequence[VerdictLine]) -> str:
    return "; ".join(_sentence(line) for line in lines)


def _sentence(line: VerdictLine) -> str:
    true = (
        "no guarantee" if math.isinf(line.epsilon) else f"epsilon {rounded_up(line.epsilon)} holds"
    )
    claimed = "" if line.claim is None else f", {claimed_epsilon(line.claim)} is claimed"
    shown = "" if line.shown is None else f", an audit shows at least {rounded_down(line.shown)}"
    return f"{line.label}: {true}{claimed}{shown}"
