"""Views of stages: everything that the templates print."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from sottovoce.deid.detect.evaluation import TypeRecall
from sottovoce.privacy.guarantee import Guarantee, rounded_up
from sottovoce.report import comparison, cross_run, derivation, detection, entries, released
from sottovoce.report.numbers import Measured, number
from sottovoce.report.plots import VerdictLine, history_chart, roc_chart, verdict_chart
from sottovoce.report.stage import Stage, Stated

_RATES = (
    ("first_pass", "first pass"),
    ("background", "background model"),
    ("adapted", "adapted to each client"),
    ("oracle", "best hypothesis in the list"),
)
_WORDS = (("rare_words", "rare words"), ("other_words", "all other words"))


@dataclass(frozen=True)
class Line:
    """A guarantee of a stage, and whether its ledger implies it."""

    stated: Stated
    checked: bool | None


@dataclass(frozen=True)
class StageView:
    """A stage with all derived data."""

    number: int
    stage: Stage
    lines: tuple[Line, ...]
    ledgers: tuple[tuple[str, list[entries.Row]], ...]
    charts: tuple[Markup, ...]
    roc: Markup | None
    scores: tuple[tuple[str, Measured], ...]
    scored_part: str
    rates: tuple[tuple[str, Measured], ...]
    words: tuple[tuple[str, dict[str, float]], ...]
    rounds: tuple[tuple[int, dict[str, Any]], ...]
    types: tuple[released.TypeRow, ...]
    examples: tuple[released.Example, ...]
    attacks: tuple[released.AttackRow, ...]
    settings: tuple[tuple[str, str], ...]
    recall: tuple[tuple[str, TypeRecall], ...] = ()
    recall_on: str = ""

    @property
    def anchor(self) -> str:
        return f"stage-{self.number}"

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What contradicts the stage: its audit, its ledgers, or the files beside it."""
        wrong = [doubt.sentence for doubt in self.stage.doubts if doubt.fatal]
        return (*self.stage.defects, *wrong)


def view_of(place: int, stage: Stage) -> StageView:
    """The view of one stage."""
    part, scores = stage.scores()
    measured = detection.evaluation_of(stage) if stage.verb == "deid" else None
    main = None if stage.main is None else stage.main.guarantee
    attacks = () if stage.audit is None else stage.audit.attacks
    return StageView(
        number=place,
        stage=stage,
        lines=tuple(Line(stated, stated.checked) for stated in stage.stated),
        ledgers=tuple((unit, entries.rows(ledger)) for unit, ledger in stage.ledgers.items()),
        charts=tuple(_charts(stage)),
        roc=roc_chart(attacks, main, f"{stage.name}: membership attacks") if attacks else None,
        scores=tuple((cross_run.METRICS.get(key, (key, ""))[0], m) for key, m in scores.items()),
        scored_part={"test": "test data", "valid": "validation data"}.get(part, part),
        rates=tuple(_rates(stage)),
        words=tuple(_words(stage)),
        rounds=tuple(_rounds(stage)),
        types=tuple(released.types(stage)),
        examples=tuple(released.examples(stage)),
        attacks=tuple(released.attacks(stage)),
        recall=tuple(sorted(measured.types.items())) if measured is not None else (),
        recall_on="this very text" if detection.on_released_text(stage) else "another text",
        settings=tuple(
            (name, comparison.shown(value))
            for name, value in comparison.flat(stage.configuration).items()
        ),
    )


def bare(guarantee: Guarantee) -> str:
    """The sentence of a guarantee without assumptions and gaps, which the page lists separately."""
    return str(replace(guarantee, assumptions=(), not_covered=()))


def verdicts(views: Sequence[StageView]) -> Markup | None:
    """The chart of all guarantees; None if there are none."""
    lines = []
    for view in views:
        bound = view.stage.lower_bound
        for stated in view.stage.stated:
            if stated is not view.stage.main and stated.claim is None:
                continue  # The table has all; the chart only main guarantees and claims.
            unit = stated.guarantee.unit
            shown = bound.epsilon if bound is not None and stated is view.stage.main else None
            lines.append(
                VerdictLine(
                    f"{view.number}  {view.stage.name}, to one {unit}",
                    stated.guarantee.epsilon,
                    stated.claim,
                    shown,
                )
            )
    return verdict_chart(lines) if lines else None


def _charts(stage: Stage) -> list[Markup]:
    charts = []
    spent = [(row["step"], Measured(row["epsilon"])) for row in stage.history if "epsilon" in row]
    if len(spent) > 1:
        charts.append(
            history_chart(
                spent,
                title=f"{stage.name}: epsilon by step",
                x_label="step",
                y_label="epsilon",
                shown=rounded_up,
            )
        )
    losses = [(row["step"], Measured(row["loss"])) for row in stage.history if "loss" in row]
    if len(losses) > 1:
        charts.append(
            history_chart(
                losses,
                title=f"{stage.name}: training loss by step",
                x_label="step",
                y_label="training loss",
                series=1,
            )
        )
    by_round = derivation.epsilon_by_round(stage)
    if by_round and by_round[-1][1] > by_round[0][1] * 1.01:  # a lifetime cap costs once
        charts.append(
            history_chart(
                [(place, Measured(epsilon)) for place, epsilon in by_round],
                title=f"{stage.name}: epsilon by round",
                x_label="round",
                y_label="epsilon, derived from the ledger",
                shown=rounded_up,
            )
        )
    errors = cross_run.rounds_with_word_errors(stage)
    if len(errors) > 1:
        charts.append(
            history_chart(
                errors,
                title=f"{stage.name}: word error rate by round",
                x_label="round",
                y_label="word error rate, %",
                series=2,
                from_zero=False,
            )
        )
    return charts


def _rates(stage: Stage) -> list[tuple[str, Measured]]:
    read = ((label, Measured.read(stage.metrics.get(key))) for key, label in _RATES)
    return [(label, measured) for label, measured in read if measured is not None]


def _words(stage: Stage) -> list[tuple[str, dict[str, float]]]:
    found = []
    for key, label in _WORDS:
        part = stage.metrics.get(key)
        if isinstance(part, dict):
            values = {name: number(value) for name, value in part.items()}
            if all(values.get(n) is not None for n in ("words", "background_errors")):
                found.append((label, {n: v for n, v in values.items() if v is not None}))
    return found


def _rounds(stage: Stage) -> list[tuple[int, dict[str, Any]]]:
    rounds = stage.metrics.get("rounds")
    reports = (
        [each for each in rounds if isinstance(each, dict)] if isinstance(rounds, list) else []
    )
    return [(place, each) for place, each in enumerate(reports, 1) if "accepted" in each]


def interval(measured: Measured) -> str:
    """The interval of a fraction in percent; empty if there is none."""
    if measured.low is None or measured.high is None:
        return ""
    return f"{100 * measured.low:.1f} to {100 * measured.high:.1f} %"
