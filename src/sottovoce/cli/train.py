"""`sottovoce train`: train a joint intent and slot model with sgd, dp-sgd or edp-sgd."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sottovoce.cli.shared.book import book_options, charged, planned_training
from sottovoce.cli.shared.canaries import check_canaries, plant
from sottovoce.cli.shared.console import json_option, print_json
from sottovoce.cli.shared.training import (
    load_data,
    search_cost_from,
    settings_from,
    settings_options,
    steps_bar,
    stopping,
)
from sottovoce.corpora.splits import By, Parts, Split, parse_ratios
from sottovoce.errors import InvalidInput
from sottovoce.io.run import Run
from sottovoce.nlu.runs.in_progress import train_into

if TYPE_CHECKING:
    from sottovoce.privacy.composition import Part


@click.command()
@click.argument("data", type=click.Path(exists=True))
@click.option("-o", "--output", "folder", required=True, help="Run folder.")
@settings_options()
@click.option(
    "--labels",
    type=click.Path(exists=True),
    help="Declared labels: a labels.json, a run, or a corpus with public labels "
    "[default: read from the training data, which the guarantee does not cover].",
)
@click.option("--public-labels", is_flag=True, help="Declare that the labels of DATA are public.")
@click.option("--valid", type=click.Path(exists=True), help="Validation data.")
@click.option("--test", type=click.Path(exists=True), help="Test data.")
@click.option("--split", metavar="T:V:T", help="Split DATA, such as 45:5:50.")
@click.option(
    "--quick", is_flag=True, help="A small model and few epochs, for a first look; see --model clc."
)
@click.option(
    "--canaries",
    type=click.IntRange(min=2),
    help="Insert this many canaries, each with probability 1/2, for `audit --attack one-run`.",
)
@click.option(
    "--publish-metrics",
    is_flag=True,
    help="Add the scores to run.json and the model card, listed as not covered "
    "[default: keep them in private/].",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted run in the folder.")
@book_options
@json_option
def train(
    data: str,
    folder: str,
    labels: str | None,
    public_labels: bool,
    valid: str | None,
    test: str | None,
    split: str | None,
    canaries: int | None,
    publish_metrics: bool,
    resume: bool,
    book: str | None,
    people: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Train an intent and slot model on DATA, a folder with train, valid and test, or a file.

    The top level of the run folder may be shared. Keep private/ to yourself: it has exact counts,
    timings, losses and scores, which no guarantee covers.

    \b
    Examples: sottovoce train snips/ --method dp-sgd --epsilon 3 -o run
              sottovoce train calls.jsonl --split 80:10:10 --model clc -o run
    """
    from sottovoce.nlu.runs.checks import check_samples, check_trainable
    from sottovoce.nlu.runs.expectations import advice
    from sottovoce.nlu.runs.experiment import owners_of
    from sottovoce.nlu.runs.in_progress import CANARIES
    from sottovoce.nlu.schema import Schema
    from sottovoce.training import join_workers

    if labels is not None and public_labels:
        raise InvalidInput("Expected --labels or --public-labels, got both.")
    settings = settings_from(options)
    search = search_cost_from(options)
    check_samples(settings, data)
    by: By = "user" if settings.unit == "user" else "id"
    rule = None if split is None else Split(ratios=parse_ratios(split), by=by)
    parts = load_data(data, split=rule, valid=valid, test=test)
    check_trainable(settings, parts.train)
    schema = Schema.load(labels) if labels else Schema.of(parts.train, declared=public_labels)
    source = {
        "data": data,
        "valid": valid,
        "test": test,
        "split": split,
        "labels": labels,
        "public_labels": public_labels,
        "canaries": canaries,
        "publish_metrics": publish_metrics,
        "search": None if search is None else search.to_json(),
    }
    where = Path(folder)
    worker = join_workers()
    leads = worker.rank == 0
    if canaries is not None:
        check_canaries(canaries, settings.relation, alone=worker.alone)

    def plant_canaries(data: Parts) -> Parts:
        if canaries is None:
            return data
        return plant(data, canaries, schema.intents, settings.relation, where, again=resume)

    def planned() -> "list[Part]":
        Run(where).check(resume=resume, before_steps=(CANARIES,))
        units = len(set(owners_of(parts.train, settings.unit)))
        size = settings.max_examples_per_user
        return [planned_training(where.name, settings.plan(units), size)]

    if leads and not resume and (sentence := advice(settings, len(parts.train))):
        click.echo(sentence, err=True)
    bar = steps_bar("Training", quiet=not leads)
    with (
        charged(book if leads else None, people, "train", planned, folder=where) as charge,
        bar as update,
        stopping(alone=worker.alone) as should_stop,
    ):
        trained = train_into(
            where,
            settings,
            parts,
            schema,
            source=source,
            plant=plant_canaries,
            resume=resume,
            publish_metrics=publish_metrics,
            search=search,
            on_step=update,
            should_stop=should_stop,
        )
        if leads and not trained.fitted.stopped:
            charge.settle_run(where)
    if not leads:
        return
    if trained.fitted.stopped:
        steps = trained.run["configuration"]["steps"]
        click.echo(
            f"Stopped after step {trained.fitted.steps:,} of {steps:,}; continue with the same "
            "command and --resume.",
            err=True,
        )
        sys.exit(130)
    if as_json:
        print_json(Run(where).read_run() | {"private": Run(where).private_part()})
    else:
        print_run(Run(where).read_run(private=True), where)


def print_run(run: dict[str, Any], folder: Path) -> None:
    """Print the scores and the guarantee of a finished run."""
    from sottovoce.cli.shared.statements import print_scores, print_statement
    from sottovoce.nlu.fit.recipes import QUICK_NOTE, is_quick
    from sottovoce.privacy.guarantee import Claim, Guarantee, Statement

    for part, metrics in run["metrics"].items():
        print_scores(f"{run['data']['name']}, {part} ({run['data'][part]:,} utterances)", metrics)
    guarantee = Guarantee.from_json(run["guarantee"])
    if run["claimed"] is None:
        click.echo(str(guarantee))
    else:
        print_statement(Statement(claimed=Claim.from_json(run["claimed"]), guarantee=guarantee))
    if "user_guarantee" in run:
        most = run["configuration"]["max_examples_per_user"]
        to_user = run["user_guarantee"] | {"assumptions": [], "not_covered": []}
        click.echo(f"\nTo a user with at most {most} examples: {Guarantee.from_json(to_user)}")
    if is_quick(run["asked"]):
        click.echo(f"\nThis is {QUICK_NOTE}.")
    timings = run["timings"]
    click.echo(
        f"\n{timings['steps']:,} steps in {timings['seconds']:.0f} s; the run is in {folder}, "
        "its model card in README.md. Counts, timings and scores are in private/: do not share "
        "that folder."
    )
