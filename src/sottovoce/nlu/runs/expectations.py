"""What error rate to expect before a private training, from measured points that are shipped.

Each point is a private training on some utterances of a public corpus: those of version 0.1.0 with
its encoder, and two with the shipped adapter (expectations.json says which). A straight line
through their logarithms, with the same slopes for all corpora, gives an expectation for other
numbers of utterances and epsilons.
"""

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from sottovoce.nlu.encoders.adapter import ADAPTED
from sottovoce.nlu.fit.recipes import ModelKind
from sottovoce.nlu.fit.settings import Settings
from sottovoce.privacy.guarantee import Unit
from sottovoce.training import Method

FILE = "expectations.json"
MANY = 20_000
"""Number of utterances for comparison."""
HIGH = 0.2
"""Above this error rate, the message names what helps."""
HELP = (
    "What helps: public sample utterances (--samples), more utterances, fewer labels, a larger "
    "epsilon, or releasing de-identified text instead (sottovoce deid)."
)


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """Expected semantic error rate: in the middle of the measured corpora, and their range."""

    middle: float
    low: float
    high: float


@cache
def _points() -> list[dict[str, Any]]:
    text = (files("sottovoce.nlu.runs") / FILE).read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)["points"]
    return found


@cache
def _lines() -> tuple[tuple[float, ...], float, float]:
    """For each corpus its level, and the slopes for log utterances and log epsilon."""
    points = _points()
    corpora = sorted({point["corpus"] for point in points})
    rows = [
        [float(point["corpus"] == corpus) for corpus in corpora]
        + [math.log(point["utterances"]), math.log(point["epsilon"])]
        for point in points
    ]
    rates = [math.log(point["ser"]) for point in points]
    found = np.linalg.lstsq(np.array(rows), np.array(rates), rcond=None)[0].tolist()
    return tuple(found[: len(corpora)]), found[-2], found[-1]


def expected(utterances: int, epsilon: float) -> Expectation:
    """The error rate to expect after training on so many utterances at this epsilon.

    >>> expected(20_000, 8).middle < expected(2_400, 3).middle < expected(500, 1).middle
    True
    """
    levels, by_size, by_epsilon = _lines()
    # Nothing is promised beyond the largest number and epsilon that were measured.
    utterances = min(utterances, max(point["utterances"] for point in _points()))
    epsilon = min(epsilon, max(point["epsilon"] for point in _points()))
    moved = by_size * math.log(utterances) + by_epsilon * math.log(epsilon)
    rates = sorted(min(1.0, math.exp(level + moved)) for level in levels)
    return Expectation(middle=float(np.median(rates)), low=rates[0], high=rates[-1])


def advice(settings: Settings, utterances: int) -> str | None:
    """A sentence or two to print before training; None for settings that were not measured."""
    if (
        (settings.model, settings.method) != (ModelKind.BERT, Method.DP_SGD)
        or (settings.encoder, settings.unit) != (ADAPTED, Unit.EXAMPLE)
        or settings.epsilon is None
        or settings.samples is not None
        or settings.tuning not in (None, "frozen")
    ):
        return None
    here, many = (expected(size, settings.epsilon) for size in (utterances, MANY))
    text = (
        f"With {utterances:,} utterances and epsilon {settings.epsilon:g}, expect a semantic error "
        f"rate around {here.middle:.0%} ({here.low:.0%} to {here.high:.0%} on public corpora)"
    )
    if utterances < MANY / 2:
        text += f"; with {MANY:,}, around {many.middle:.0%}"
    return f"{text}. {HELP}" if here.middle > HIGH else f"{text}."
