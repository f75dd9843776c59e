"""Overview of all stages: claimed epsilon, true epsilon and lower bound of the audit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sottovoce.privacy.guarantee import Claim, rounded_down, rounded_up
from sottovoce.report.numbers import claimed_epsilon
from sottovoce.report.plots.canvas import LEFT, RIGHT, WIDTH, Canvas, EpsilonAxis, tick_label

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
    """One row per stage: a label above markers on a common epsilon axis."""
    canvas = Canvas(
        "Claimed, true and audited epsilon", _described(lines), _ROW * len(lines) + _FOOT
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


def _described(lines: Sequence[VerdictLine]) -> str:
    return "; ".join(_sentence(line) for line in lines)


def _sentence(line: VerdictLine) -> str:
    true = (
        "no guarantee" if math.isinf(line.epsilon) else f"epsilon {rounded_up(line.epsilon)} holds"
    )
    claimed = "" if line.claim is None else f", {claimed_epsilon(line.claim)} is claimed"
    shown = "" if line.shown is None else f", an audit shows at least {rounded_down(line.shown)}"
    return f"{line.label}: {true}{claimed}{shown}"
