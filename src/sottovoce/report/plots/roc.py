"""ROC curves of attacks on logarithmic axes, with the limit that the guarantee implies.

If training is (epsilon, delta)-private for one record, the true positive rate of any test is at
most min(e^epsilon f + delta, 1 - e^-epsilon (1 - delta - f)), where f is its false positive rate.
"""

import math
from collections.abc import Sequence

from markupsafe import Markup

from sottovoce.audit.result import AttackOutcome
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.numbers import percent
from sottovoce.report.plots.canvas import SERIES, Axis, Canvas

_LOWEST = 1e-4
_POINTS = 60


def allowed(guarantee: Guarantee, false_positive_rate: float) -> float:
    """The highest true positive rate that the guarantee allows.

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
    """The curves, the diagonal of chance, and the region that the guarantee excludes."""
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
