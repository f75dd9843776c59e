"""`sottovoce tune`: search for the best settings on validation data, and charge the search."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sottovoce.cli.shared.book import book_options, charged, planned_training
from sottovoce.cli.shared.console import json_option, print_json, progress
from sottovoce.cli.shared.options import deprecated_option
from sottovoce.cli.shared.training import load_data, settings_from, settings_options
from sottovoce.corpora.splits import By, Split, parse_ratios
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.io.run import PRIVATE, Run

if TYPE_CHECKING:
    from sottovoce.nlu.fit.settings import Settings
    from sottovoce.nlu.runs.search import Grid, Trial
    from sottovoce.privacy.guarantee import Guarantee

TRIALS, PLAN, BEST = "trials", "plan.json", "best.json"
SHOWN = 10
"""Rows of the printed table, best first; the folder has all trials."""


def _numbers(
    _: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[float, ...] | None:
    """Parse numbers separated by commas."""
    if value is None:
        return None
    try:
        return tuple(dict.fromkeys(float(part) for part in value.split(",")))
    except ValueError:
        raise InvalidInput(
            f"Expected numbers such as 0.1,0.5,1 for {parameter.opts[0]}, got {value!r}."
        ) from None


AXES = {
    "clip-norm": "Clip norms, C [default: 0.1,0.25,0.5,1,2,5].",
    "noise-multiplier": "Noise multipliers, z0 [default: 0.000001 to 1 in powers of ten; none with "
    "--epsilon].",
    "tau": "Decay strengths, with --decay [default: the paper's eight values].",
    "learning-rate": "Learning rates [default: 0.3, 1 and 3 times the recipe's].",
}


def _axes(command: Callable[..., None]) -> Callable[..., None]:
    for name, text in reversed(AXES.items()):
        variable = f"{name.replace('-', '_')}s"
        option = click.option(f"--{name}", variable, metavar="X,...", callback=_numbers, help=text)
        command = option(command)
    return command


@click.command()
@click.argument("data", type=click.Path(exists=True))
@click.option("-o", "--output", "folder", required=True, help="Search folder.")
@_axes
@click.option("--max-trials", type=click.IntRange(min=1), help="Run this many, drawn at random.")
@deprecated_option("--limit", "--max-trials", type=click.IntRange(min=1))
@click.option("--charge", is_flag=True, help="Charge all trials to the final training.")
@settings_options(without=AXES)
@click.option("--labels", type=click.Path(exists=True), help="Declared labels, as for train.")
@click.option("--public-labels", is_flag=True, help="Declare that the labels of DATA are public.")
@click.option("--valid", type=click.Path(exists=True), help="Validation data.")
@click.option("--split", metavar="T:V:T", help="Split DATA, such as 45:5:50.")
@book_options
@json_option
def tune(
    data: str,
    folder: str,
    clip_norms: tuple[float, ...] | None,
    noise_multipliers: tuple[float, ...] | None,
    taus: tuple[float, ...] | None,
    learning_rates: tuple[float, ...] | None,
    max_trials: int | None,
    charge: bool,
    labels: str | None,
    public_labels: bool,
    valid: str | None,
    split: str | None,
    book: str | None,
    people: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the settings with the lowest semantic error rate on the valid part of DATA.

    Values are lists such as 0.1,0.5,1. The folder stores finished trials: the same command resumes
    the search. The test part is never read. With --charge, best.json contains the ledger of all
    trials, and training with it adds its own cost.

    \b
    Example:
      sottovoce tune snips/ --method dp-sgd --epsilon 3 --max-trials 10 -o search
      sottovoce train snips/ --settings search/best.json -o run
    """
    from sottovoce.nlu.runs.checks import check_samples
    from sottovoce.nlu.runs.experiment import owners_of
    from sottovoce.nlu.runs.search import guarantee_of_choice, run_trials, search_cost
    from sottovoce.nlu.schema import Schema

    if labels is not None and public_labels:
        raise InvalidInput("Expected --labels or --public-labels, got both.")
    settings = settings_from(options)
    check_samples(settings, data)
    axes = {
        "clip_norm": clip_norms,
        "noise_multiplier": noise_multipliers,
        "tau": taus,
        "learning_rate": learning_rates,
    }
    by: By = "user" if settings.unit == "user" else "id"
    rule = None if split is None else Split(ratios=parse_ratios(split), by=by)
    parts = load_data(data, split=rule, valid=valid)
    schema = Schema.load(labels) if labels else Schema.of(parts.train, declared=public_labels)
    source = {"data": data, "valid": valid, "split": split, "labels": labels,
              "public_labels": public_labels}  # fmt: skip
    where = Path(folder)
    grid = _grid(settings, axes)
    units = len(set(owners_of(parts.train, settings.unit)))
    asked = grid.around(settings)
    for each in asked:
        each.plan(units)  # invalid settings fail before the first trial
    trials = _planned(where, asked, source, max_trials)
    size = settings.max_examples_per_user
    cost = [planned_training(f"trial {n}", each.plan(units), size) for n, each in enumerate(trials)]
    with (
        charged(book, people, "tune", lambda: cost, folder=where) as charged_to,
        progress("Training trials", unit=f"of {len(trials)}", total=len(trials)) as update,
    ):
        done = run_trials(
            trials, parts, schema, _inside(where, TRIALS), on_trial=lambda number, _: update(number)
        )
        charged_to.settle(cost)
    best = min(done, key=lambda trial: trial.ser)
    search = search_cost(done, charge=charge)
    guarantee = guarantee_of_choice(search, best, population=settings.population or units)
    result = {
        # Not the seed: anyone who knows it can subtract the noise.
        "settings": {k: v for k, v in best.settings.to_json().items() if k != "seed"},
        **search.to_json(),
        "guarantee": guarantee.to_json(),
    }
    with text_output(Run(where).public(BEST)) as stream:
        json.dump(result, stream, indent=2, allow_nan=False)
        stream.write("\n")
    Run(where).protect()
    if as_json:
        print_json(
            {**result, "scores": best.scores, "ranking": [_row(trial) for trial in _ranked(done)]}
        )
    else:
        _print(done, guarantee, where, charged=charge)


def _grid(settings: "Settings", axes: Mapping[str, tuple[float, ...] | None]) -> "Grid":
    """The grid, with the paper's values where none are given."""
    from dataclasses import replace

    from sottovoce.nlu.runs.search import Grid

    given = {name: values for name, values in axes.items() if values is not None}
    return replace(Grid.of_paper(settings), **given)


def _planned(
    folder: Path, trials: "list[Settings]", source: Mapping[str, Any], limit: int | None
) -> "list[Settings]":
    """Draw the trials, or load those of an interrupted search in this folder."""
    from sottovoce.nlu.fit.settings import Settings
    from sottovoce.nlu.runs.search import chosen

    asked = {
        "trials": [trial.to_json() for trial in trials],
        "limit": limit,
        "source": dict(source),
    }
    path = Run(folder).find_private(PLAN)
    if path.exists():
        try:
            begun = json.loads(path.read_text(encoding="utf-8"))
            drawn = [Settings.from_json(each) for each in begun.pop("chosen")]
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise InvalidInput(
                f"Expected the plan of a search in {path}, got: {problem}."
            ) from None
        if begun != asked:
            raise InvalidInput(
                f"Expected the settings, data and --max-trials of the search in {folder}, got "
                "others: name another folder."
            )
        return drawn
    folder.mkdir(parents=True, exist_ok=True)
    drawn = chosen(trials, limit)
    Run(folder).write_private(PLAN, {**asked, "chosen": [each.to_json() for each in drawn]})
    return drawn


def _inside(folder: Path, name: str) -> Path:
    """The folder of the trials: in private/, or at the top level (earlier versions)."""
    found = Run(folder).find_private(name)
    return found if found.exists() else Run(folder).private(name)


def _ranked(trials: "Sequence[Trial]") -> "list[Trial]":
    return sorted(trials, key=lambda trial: trial.ser)


def _row(trial: "Trial") -> dict[str, Any]:
    settings, guarantee = trial.settings.filled(), trial.guarantee
    return {
        "clip_norm": settings.clip_norm,
        "noise_multiplier": settings.noise_multiplier,
        "tau": settings.tau if settings.decay != "none" else None,
        "learning_rate": settings.learning_rate,
        "epsilon": guarantee.epsilon if guarantee.holds else None,
        "ser": trial.ser,
        "seconds": trial.seconds,
    }


def _cell(name: str, value: float | None) -> str:
    from sottovoce.privacy.guarantee import rounded_up

    if value is None:
        return "-"
    return rounded_up(value) if name == "epsilon" else f"{value:.4g}"


def _print(
    trials: "Sequence[Trial]", guarantee: "Guarantee", folder: Path, *, charged: bool
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    titles = {
        "clip_norm": "C",
        "noise_multiplier": "z0",
        "tau": "tau",
        "learning_rate": "rate",
        "epsilon": "epsilon",
        "ser": "SER %",
        "seconds": "s",
    }
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    for title in titles.values():
        table.add_column(title, justify="right")
    for trial in _ranked(trials)[:SHOWN]:
        row = _row(trial)
        row["ser"] = 100 * row["ser"]
        table.add_row(*(_cell(name, row[name]) for name in titles))
    console = Console()
    console.print(table)
    if len(trials) > SHOWN:
        console.print(
            f"Best {SHOWN} of {len(trials)} trials; all are in {folder / PRIVATE / TRIALS}."
        )
    paid = "with all trials charged" if charged else "for its own training"
    console.print(
        f"Guarantee of a model trained with the best settings, {paid}: {guarantee}",
        highlight=False, markup=False,
    )  # fmt: skip
    console.print(
        f"\nTo train with them: sottovoce train DATA --settings {folder / BEST} -o RUN",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
