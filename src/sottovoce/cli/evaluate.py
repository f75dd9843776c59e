"""`sottovoce evaluate`: scores of predicted labels, with confidence intervals."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from sottovoce.cli.shared.console import json_option, print_json, printable
from sottovoce.cli.shared.reading import losses_of, open_corpus, print_losses, reading_options
from sottovoce.corpora import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.nlu.metrics.scores import DISPLAY_NAMES

# The metrics import numpy, which is too slow for `--help`.
if TYPE_CHECKING:
    from sottovoce.nlu.metrics import Change, Interval, SpanCounts


@click.command()
@click.argument("reference")
@click.argument("hypothesis")
@click.option(
    "--by-slot", is_flag=True, help="Also print precision, recall and F1 of each slot type."
)
@click.option(
    "--by",
    "keys",
    multiple=True,
    metavar="KEY",
    help="Also print the errors for each intent, user, or value of another key of REFERENCE; "
    "repeatable.",
)
@click.option("--metric", "metrics", multiple=True, metavar="NAME",
              help="Additional metric, such as slot_precision; repeatable.")  # fmt: skip
@click.option("--intervals", "with_intervals", is_flag=True, help="Add intervals to the JSON.")
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="Confidence level of the intervals.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the bootstrap.")
@click.option("--baseline", metavar="CORPUS", help="Predictions to compare with.")
@reading_options
@json_option
def evaluate(
    reference: str,
    hypothesis: str,
    *,
    by_slot: bool,
    keys: tuple[str, ...],
    metrics: tuple[str, ...],
    with_intervals: bool,
    confidence: float,
    seed: int,
    baseline: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Score the labels in HYPOTHESIS against those in REFERENCE.

    Both are corpora of the same utterances in the same order. Scores are fractions; the semantic
    error rate may exceed 1. Intervals are percentile bootstrap over utterances.

    \b
    Example:
      sottovoce evaluate test.jsonl predicted.jsonl --baseline before.jsonl
    """
    from sottovoce.nlu.metrics import count, intervals, paired_change, spans_by_type

    if [reference, hypothesis, baseline].count("-") > 1:
        raise InvalidInput(
            "Expected at most one corpus from standard input, got - twice: use files."
        )
    right, guess = (_read(path, reading) for path in (reference, hypothesis))
    counts = count(right, guess, metrics=metrics)
    scores = counts.to_json()
    result: dict[str, Any] = dict(scores)
    found: dict[str, Interval] = {}
    if with_intervals or not as_json:
        found = intervals(counts, confidence=confidence, seed=seed)
        result["intervals"] = {name: interval._asdict() for name, interval in found.items()}
    changes: dict[str, Change] = {}
    if baseline is not None:
        before = count(right, _read(baseline, reading), metrics=metrics)
        changes = paired_change(counts, before, confidence=confidence, seed=seed)
        result["baseline"] = before.to_json()
        result["change"] = {name: _change(change) for name, change in changes.items()}
    types: dict[str, SpanCounts] = {}
    if by_slot:
        types = spans_by_type((u.slots for u in right), (u.slots for u in guess))
        result["by_slot"] = {name: _slot(each) for name, each in types.items()}
    groups = {key: by_group(right, guess, key) for key in keys}
    if keys:
        result["by"] = groups
    if as_json:
        print_json(result)
    else:
        _print(scores, found, changes, types, len(right), confidence)
        for key, rows in groups.items():
            _print_groups(key, rows)
    if "user" in keys:
        click.echo(
            "Warning: errors by user are about people, and no guarantee covers them: do not "
            "publish them.",
            err=True,
        )


def by_group(
    right: Sequence[Utterance], guess: Sequence[Utterance], key: str
) -> dict[str, dict[str, Any]]:
    """Scores of the utterances with each value of a key, largest groups first.

    `confused_with` is the most frequent wrong intent.
    """
    from sottovoce.nlu.metrics import count

    groups: dict[str, list[tuple[Utterance, Utterance]]] = {}
    for pair in zip(right, guess, strict=True):
        one = pair[0]
        value = getattr(one, key) if key in ("intent", "user") else one.extra.get(key)
        if value not in (None, ""):
            groups.setdefault(str(value), []).append(pair)
    if not groups:
        raise InvalidInput(f"Expected utterances with the key {key} to group by, got none.")
    found = {}
    for value, pairs in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        scores = count([one for one, _ in pairs], [other for _, other in pairs]).to_json()
        wrong = Counter(other.intent for one, other in pairs if other.intent != one.intent)
        found[value] = {
            "utterances": len(pairs),
            "ser": scores["ser"],
            "intent_accuracy": scores["intent_accuracy"],
            "confused_with": wrong.most_common(1)[0][0] if wrong else None,
        }
    return found


def _print_groups(key: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"By {key}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("")
    for heading in ("utterances", "semantic errors", "intents right", "confused with"):
        table.add_column(heading, justify="right")
    for value, row in rows.items():
        table.add_row(
            Text(printable(value)),
            f"{row['utterances']:,}",
            f"{100 * row['ser']:.2f}",
            f"{100 * row['intent_accuracy']:.2f}",
            Text(printable(row["confused_with"] or "")),
        )
    Console(highlight=False).print(table)


def _read(path: str, reading: Mapping[str, Any]) -> Sequence[Utterance]:
    reader = open_corpus(path, **reading)
    utterances = list(reader)
    print_losses(losses_of(reader), path)
    return utterances


def _change(change: "Change") -> dict[str, Any]:
    """The relative change is null if the baseline is 0: JSON has no infinity."""
    relative = change.relative
    return {
        "difference": change.difference,
        **change.interval._asdict(),
        "relative": relative if abs(relative) != float("inf") else None,
    }


def _slot(counts: "SpanCounts") -> dict[str, float]:
    return {
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": counts.f1,
        "reference": counts.reference,
        "hypothesis": counts.hypothesis,
    }


def _print(
    scores: Mapping[str, float],
    found: Mapping[str, "Interval"],
    changes: Mapping[str, "Change"],
    types: Mapping[str, "SpanCounts"],
    utterances: int,
    confidence: float,
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(title=f"{utterances:,} utterances", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("")
    for heading in ("%", f"{confidence:.3g} interval"):
        table.add_column(heading, justify="right")
    if changes:
        for heading in ("change", f"{confidence:.3g} interval", "relative"):
            table.add_column(heading, justify="right")
    for name, value in scores.items():
        cells = [
            DISPLAY_NAMES.get(name, name.replace("_", " ")),
            f"{100 * value:.2f}",
            _range(found[name]),
        ]
        if changes:
            change = changes[name]
            cells += [f"{100 * change.difference:+.2f}", _range(change.interval, "+")]
            cells.append(f"{100 * change.relative:+.1f}%")
        table.add_row(*cells)
    console.print(table)
    if types:
        table = Table(title="Slots", title_justify="left", box=box.SIMPLE_HEAD)
        table.add_column("")
        for heading in ("precision", "recall", "F1", "spans"):
            table.add_column(heading, justify="right")
        for name, each in types.items():
            shares = [f"{100 * x:.2f}" for x in (each.precision, each.recall, each.f1)]
            # A slot name comes from a file and must not be parsed as markup.
            table.add_row(Text(printable(name)), *shares, f"{each.reference:,}")
        console.print(table)


def _range(interval: "Interval", sign: str = "") -> str:
    return f"{100 * interval.low:{sign}.2f} to {100 * interval.high:{sign}.2f}"
