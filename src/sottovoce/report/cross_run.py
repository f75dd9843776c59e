"""Comparisons across runs: utility against epsilon, training times, word errors.

Only runs on the same data are compared; runs that do not name their data are compared with each
other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sottovoce.report.numbers import Measured, number
from sottovoce.report.stage import Stage

METRICS: Mapping[str, tuple[str, str]] = {
    "ser": ("Semantic error rate (SER)", "lower is better"),
    "intent_accuracy": ("Intent accuracy", "higher is better"),
    "slot_f1": ("Slot F1", "higher is better"),
    "exact_match": ("Exact match", "higher is better"),
    "accuracy": ("Accuracy", "higher is better"),
    "f1": ("F1", "higher is better"),
}


@dataclass(frozen=True)
class Point:
    """One run in a chart over epsilon; an infinite epsilon means no guarantee."""

    place: int
    """The number of the run on the page."""
    name: str
    epsilon: float
    measured: Measured


@dataclass(frozen=True)
class Utility:
    """One metric of several runs on the same data."""

    key: str
    title: str
    better: str
    data: str
    part: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class TrainingTime:
    """Training time of a run, relative to the others on the same data."""

    place: int
    name: str
    method: str
    seconds: float | None
    rate: float | None
    ratio: float
    """Time per example, divided by that of the reference."""


def utilities(stages: Sequence[Stage]) -> list[Utility]:
    """Every known metric of at least two runs on the same data."""
    groups: dict[tuple[str, str], list[tuple[int, Stage]]] = {}
    for place, stage in enumerate(stages, 1):
        part, scores = stage.scores()
        if scores and stage.epsilon is not None:
            groups.setdefault((data_name(stage), part), []).append((place, stage))
    found = []
    for (data, part), members in groups.items():
        for key, (title, better) in METRICS.items():
            points = tuple(
                Point(place, stage.name, stage.epsilon or 0.0, stage.scores()[1][key])
                for place, stage in members
                if key in stage.scores()[1]
            )
            if len(points) >= 2:
                found.append(Utility(key, title, better, data, part, points))
    return found


def training_times(stages: Sequence[Stage]) -> list[tuple[str, list[TrainingTime]]]:
    """Relative training times by data; the reference is plain SGD, or else the fastest run."""
    groups: dict[str, list[tuple[int, Stage, float]]] = {}
    for place, stage in enumerate(stages, 1):
        cost = _cost(stage)
        if stage.verb == "train" and cost:
            groups.setdefault(data_name(stage), []).append((place, stage, cost))
    found = []
    for data, members in groups.items():
        if len(members) < 2:
            continue
        plain = [cost for _, stage, cost in members if method_of(stage) == "sgd"]
        reference = min(plain or [cost for _, _, cost in members])
        rows = [
            TrainingTime(
                place,
                stage.name,
                method_of(stage),
                stage.timings.get("seconds"),
                stage.timings.get("examples_per_second"),
                cost / reference,
            )
            for place, stage, cost in members
        ]
        found.append((data, rows))
    return found


def word_errors(stages: Sequence[Stage]) -> list[Point]:
    """The adapted word error rate of every rescoring run with a known epsilon."""
    return [
        Point(place, stage.name, stage.epsilon, measured)
        for place, stage in enumerate(stages, 1)
        if stage.verb == "rescore" and stage.epsilon is not None
        for measured in [Measured.read(stage.metrics.get("adapted"))]
        if measured is not None
    ]


def rounds_with_word_errors(stage: Stage) -> list[tuple[float, Measured]]:
    """The word error rate after each round, if it was measured."""
    rounds = stage.metrics.get("rounds")
    found = []
    for place, report in enumerate(rounds if isinstance(rounds, list) else (), 1):
        if not isinstance(report, Mapping):
            continue
        wer = report.get("wer")
        measured = Measured.read(wer if isinstance(wer, Mapping) else report)
        if measured is not None:
            found.append((number(report.get("round")) or float(place), measured))
    return found


def data_name(stage: Stage) -> str:
    """The name of the data of a run, as stated by the run."""
    return str(stage.data.get("name") or "")


def method_of(stage: Stage) -> str:
    return str(stage.configuration.get("method") or "")


def _cost(stage: Stage) -> float | None:
    """Seconds per example, or of the whole run if the rate is unknown."""
    rate = stage.timings.get("examples_per_second")
    if rate is not None and 0 < rate < math.inf:
        return 1 / rate
    seconds = stage.timings.get("seconds")
    return seconds if seconds is not None and 0 < seconds < math.inf else None
