"""The page: one self-contained HTML file without scripts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import jinja2

from sottovoce import __version__
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.privacy.guarantee import rounded_down
from sottovoce.privacy.policy import VACUOUS, Policy, shipped
from sottovoce.privacy.risk import Tradeoff, in_words, percent_up
from sottovoce.report import cross_run
from sottovoce.report.comparison import Comparison, compare
from sottovoce.report.decision import GUESSES, Judgement, judge
from sottovoce.report.numbers import (
    Measured,
    claimed_epsilon,
    duration,
    percent,
    short,
    true_epsilon,
)
from sottovoce.report.plots import epsilon_chart, history_chart
from sottovoce.report.stage import Stage, in_a_sentence
from sottovoce.report.view import StageView, bare, interval, verdicts, view_of

TITLE = "Privacy report"
POLICY = "moderate"
_MAX_CHARTS = 3
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Report:
    """The stages of a page, and how to render it."""

    stages: tuple[Stage, ...]
    title: str = TITLE
    compared: tuple[Stage, Stage] | None = None
    policy: Policy = field(default_factory=lambda: shipped(POLICY))
    author: str = ""
    scope: str = ""

    @cached_property
    def views(self) -> tuple[StageView, ...]:
        return tuple(view_of(place, stage) for place, stage in enumerate(self.stages, 1))

    @cached_property
    def judgement(self) -> Judgement:
        """What follows from the stages under the policy."""
        with in_a_sentence(f"the run files of {', '.join(each.name for each in self.stages)}"):
            return judge(self.stages, self.policy)

    @property
    def defects(self) -> list[str]:
        """All contradictions on the page, each with its stage."""
        return [f"{view.stage.name}: {each}" for view in self.views for each in view.contradictions]

    @property
    def private(self) -> list[str]:
        """Kinds of private figures on the page; a page without them may be shared."""
        return sorted({part for stage in self.stages for part in stage.private})

    def html(self) -> str:
        """The page as HTML; a run file with parts that cannot be shown is refused."""
        with in_a_sentence(f"the run files of {', '.join(each.name for each in self.stages)}"):
            try:
                return self._html()
            except jinja2.TemplateError as problem:
                raise InvalidInput(f"Expected parts of a run, got: {problem}.") from problem

    def _html(self) -> str:
        comparison: Comparison | None = None if self.compared is None else compare(*self.compared)
        return (
            _environment()
            .get_template("page.html")
            .render(
                title=self.title,
                version=__version__,
                views=self.views,
                judgement=self.judgement,
                policy=self.policy,
                author=self.author,
                scope=self.scope,
                vacuous=VACUOUS,
                guesses=GUESSES,
                curve_chart=_curve_chart(self.judgement.curve),
                embedded=json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False),
                private=self.private,
                verdict_chart=verdicts(self.views),
                comparison=comparison,
                utilities=_utility_groups(self.stages),
                training_times=cross_run.training_times(self.stages),
                wer_chart=_wer_chart(self.stages),
            )
        )

    def write(self, path: str | Path) -> None:
        """Write the page atomically."""
        page = self.html()
        with text_output(path) as stream:
            stream.write(page)

    def to_json(self) -> dict[str, Any]:
        """The verdicts of the page as JSON."""
        judgement = self.judgement
        return {
            "title": self.title,
            **judgement.to_json(),
            "private": self.private,
            "stages": [
                {
                    "name": view.stage.name,
                    "verb": view.stage.verb,
                    "guarantees": [each.guarantee.to_json() for each in view.stage.stated],
                    "claimed": [
                        None if each.claim is None else each.claim.to_json()
                        for each in view.stage.stated
                    ],
                    "lower_bound": (
                        None if view.stage.lower_bound is None else view.stage.lower_bound.to_json()
                    ),
                    "derived_again": [line.checked for line in view.lines],
                }
                for view in self.views
            ],
            "defects": self.defects,
        }


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "bare": bare,
        "claimed": claimed_epsilon,
        "duration": duration,
        "in_words": in_words,
        "interval": interval,
        "percent": percent,
        "short": short,
        "true_epsilon": true_epsilon,
        "up": percent_up,
        "at_least": rounded_down,
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
    }
    return environment


def _utility_groups(stages: Sequence[Stage]) -> list[dict[str, Any]]:
    """Charts and tables by data, with one chart per metric."""
    groups: dict[tuple[str, str], list[cross_run.Utility]] = {}
    for each in cross_run.utilities(stages):
        groups.setdefault((each.data, each.part), []).append(each)
    return [
        {
            "data": data,
            "part": {"test": "test data", "valid": "validation data"}.get(part, part),
            "metrics": members,
            "points": _by_run(members),
            "charts": [
                epsilon_chart(
                    [
                        cross_run.Point(p.place, p.name, p.epsilon, p.measured.times(100))
                        for p in each.points
                    ],
                    title=f"{each.title} against epsilon",
                    y_label=f"{each.title}, % ({each.better})",
                )
                for each in members[:_MAX_CHARTS]
            ],
        }
        for (data, part), members in groups.items()
    ]


def _by_run(utilities: Sequence[cross_run.Utility]) -> list[tuple[cross_run.Point, dict[str, Any]]]:
    found: dict[int, tuple[cross_run.Point, dict[str, Any]]] = {}
    for each in utilities:
        for point in each.points:
            found.setdefault(point.place, (point, {}))[1][each.key] = point.measured
    return [found[place] for place in sorted(found)]


def _curve_chart(curve: Tradeoff | None) -> Any:
    """The trade-off curve: misses against false alarms."""
    if curve is None:
        return None
    points = [(5.0 * step, Measured(100 * curve.miss(step / 20))) for step in range(21)]
    return history_chart(
        points, title="False alarms against misses", x_label="false alarms of a test, %",
        y_label="misses, at least, %",
    )  # fmt: skip


def _wer_chart(stages: Sequence[Stage]) -> Any:
    points = cross_run.word_errors(stages)
    if len(points) < 2:
        return None
    return epsilon_chart(
        points, title="Word error rate against epsilon", y_label="word error rate, adapted, %"
    )
