"""`sottovoce train`: a joint intent and slot model, by sgd, dp-sgd or edp-sgd."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sottovoce.cli.canaries import plant
from sottovoce.cli.console import json_option, print_json
from sottovoce.cli.training_options import settings_from, settings_options
from sottovoce.corpora.atomic import text_output
from sottovoce.corpora.parts import load_parts
from sottovoce.corpora.splits import By, Split, parse_ratios
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    from sottovoce.nlu.fitting import Moment
    from sottovoce.nlu.settings import Settings

SETTINGS, RUN = "settings.json", "run.json"


@click.command()
@click.argument("data", type=click.Path(exists=True))
@click.option("-o", "--output", "folder", required=True, help="Folder of the run.")
@settings_options
@click.option(
    "--labels",
    type=click.Path(exists=True),
    help="Declared labels: a labels.json, a run, or a corpus whose labels are public "
    "[default: read off the training data, which is not covered].",
)
@click.option("--public-labels", is_flag=True, help="Declare the labels of DATA to be public.")
@click.option("--valid", type=click.Path(exists=True), help="Validation data.")
@click.option("--test", type=click.Path(exists=True), help="Test data.")
@click.option("--split", metavar="T:V:T", help="Split DATA, such as 45:5:50.")
@click.option(
    "--canaries",
    type=click.IntRange(min=2),
    help="Plant so many canaries, each by a fair coin, for `audit --attack one-run`.",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted run in the folder.")
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
    resume: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Train an intent and slot model on DATA, a folder with train, valid and test, or a file.

    \b
    Examples: sottovoce train snips/ --method dp-sgd --epsilon 3 -o run
              sottovoce train calls.jsonl --split 80:10:10 --model clc -o run
    """
    from sottovoce.nlu.experiment import train as train_model
    from sottovoce.nlu.run import save_run
    from sottovoce.nlu.schema import Schema
    from sottovoce.training import join_workers

    if labels is not None and public_labels:
        raise InvalidInput("Expected --labels or --public-labels, got both.")
    settings = settings_from(options)
    by: By = "user" if settings.unit == "user" else "id"
    rule = None if split is None else Split(ratios=parse_ratios(split), by=by)
    parts = load_parts(data, split=rule, valid=valid, test=test)
    schema = Schema.load(labels) if labels else Schema.of(parts.train, declared=public_labels)
    where = Path(folder)
    worker = join_workers()
    leads = worker.rank == 0
    where.mkdir(parents=True, exist_ok=True)
    if leads:
        _begin(where, settings, resume=resume)
    if canaries is not None:
        if not worker.alone:
            raise InvalidInput("Expected one process to plant canaries, got several.")
        parts = plant(parts, canaries, schema.intents, settings.relation, where)
    with _progress(quiet=not leads) as tell, _stopping() as should_stop:
        trained = train_model(
            settings,
            parts,
            schema,
            folder=where,
            resume=resume,
            on_step=tell,
            should_stop=should_stop,
        )
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
    source = {"data": data, "valid": valid, "test": test, "split": split, "canaries": canaries}
    trained.run["source"] = source
    save_run(where, trained.model, trained.run)
    for path in where.glob("checkpoint*.pt"):
        path.unlink()
    if as_json:
        print_json(trained.run)
    else:
        print_run(trained.run, where)


def print_run(run: dict[str, Any], folder: Path) -> None:
    """What a person wants to know of a finished run."""
    from sottovoce.cli.scores_table import print_scores
    from sottovoce.cli.statements import print_statement
    from sottovoce.privacy.guarantee import Claim, Guarantee, Statement

    for part, metrics in run["metrics"].items():
        print_scores(f"{run['data']['name']}, {part} ({run['data'][part]:,} utterances)", metrics)
    guarantee = Guarantee.from_json(run["guarantee"])
    if run["claimed"] is None:
        click.echo(str(guarantee))
    else:
        print_statement(Statement(claimed=Claim.from_json(run["claimed"]), guarantee=guarantee))
    timings = run["timings"]
    click.echo(
        f"\n{timings['steps']:,} steps in {timings['seconds']:.0f} s; the run is in {folder}, "
        "its model card in README.md."
    )


def _begin(folder: Path, settings: "Settings", *, resume: bool) -> None:
    """Note the settings in the folder, or check that they are those of the run to continue."""
    path = folder / SETTINGS
    if resume:
        if not path.is_file():
            raise InvalidInput(f"Expected an interrupted run in {folder}, found none.")
        if json.loads(path.read_text(encoding="utf-8")) != settings.to_json():
            raise InvalidInput(
                f"Expected the settings of the interrupted run, which are in {path}, got others."
            )
        return
    if (folder / RUN).exists() or path.exists():
        what = "a finished run" if (folder / RUN).exists() else "an interrupted run"
        raise InvalidInput(
            f"Expected an empty folder, got {what} in {folder}: name another folder"
            + ("." if (folder / RUN).exists() else ", or add --resume.")
        )
    with text_output(path) as stream:
        json.dump(settings.to_json(), stream, indent=2)


@contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C asks for a stop after the running step, the second stops at once."""
    asked = False

    def ask(*_: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        click.echo("Stopping after this step (again to stop at once).", err=True)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _progress(*, quiet: bool) -> "Iterator[Callable[[Moment], None]]":
    """Loss, spent epsilon and time left on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("Training"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} steps"),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TextColumn("{task.fields[spent]}"),
        TextColumn("{task.fields[left]} left"),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=None, loss=float("nan"), spent="", left="")

    def tell(moment: "Moment") -> None:
        spent = "" if moment.epsilon is None else f"epsilon {moment.epsilon:.2f} spent"
        minutes, seconds = divmod(round(moment.seconds_left), 60)
        bar.update(
            task,
            completed=moment.step,
            total=moment.steps,
            loss=moment.loss,
            spent=spent,
            left=f"{minutes}:{seconds:02}",
        )

    with bar:
        yield tell
