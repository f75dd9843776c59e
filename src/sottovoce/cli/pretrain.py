"""`sottovoce pretrain`: an encoder from public text or from public labelled corpora."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sottovoce.cli.console import json_option, print_json
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    from sottovoce.nlu.pretraining import Moment

CHECKPOINT, RECORD = "checkpoint.pt", "pretraining.json"


@click.command()
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("-o", "--output", "folder", required=True, help="Folder of the encoder.")
@click.option(
    "--labelled",
    is_flag=True,
    help="SOURCES are labelled corpora, files or folders of train, valid and test: learn to label "
    "all of them, one pair of heads for each.",
)
@click.option(
    "--encoder",
    help="What to start from: minilm, paper (4 layers x 312, untrained), a folder or a hub name "
    "[default: paper; minilm with --labelled].",
)
@click.option("--passes", type=click.IntRange(min=1), help="Over the material [default: 3; 2].")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="Utterances of each labelled corpus, or lines of all text, at most [default: 8000 of each "
    "labelled corpus].",
)
@click.option("--batch-size", type=click.IntRange(min=1), help="[default: 64; 32]")
@click.option("--learning-rate", type=float, help="[default: 0.0005; 0.00012]")
@click.option("--seed", type=int, default=0, show_default=True, help="Order and initial weights.")
@click.option("--resume", is_flag=True, help="Continue an interrupted pretraining.")
@json_option
def pretrain(
    sources: tuple[str, ...],
    folder: str,
    labelled: bool,
    encoder: str | None,
    limit: int | None,
    resume: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Make an encoder from public SOURCES, for `sottovoce train --encoder FOLDER`.

    Without --labelled they are text, one utterance a line (or any corpus): a part of the word
    pieces is hidden and guessed. What is learnt from is NOT protected: public material only.

    \b
    Examples: sottovoce pretrain wiki.txt.gz -o small-bert
              sottovoce pretrain --labelled nlu-eval/ mit-movie/ -o adapted
    """
    where = Path(folder)
    given = {name: value for name, value in options.items() if value is not None}
    if labelled and limit is not None:
        given["limit"] = limit
    _begin(where, resume=resume)
    start = encoder or ("minilm" if labelled else "paper")
    with _stopping() as should_stop, _progress() as tell:
        from sottovoce.nlu.pretraining.making import Making, make_from_labelled, make_from_text

        making = Making(
            folder=where,
            start=start,
            checkpoint=where / CHECKPOINT,
            resume=resume,
            on_step=tell,
            should_stop=should_stop,
        )
        if labelled:
            record = make_from_labelled(sources, making, given)
        else:
            record = make_from_text(sources, making, given, limit)
    if record is None:
        click.echo("Stopped; continue with the same command and --resume.", err=True)
        sys.exit(130)
    (where / CHECKPOINT).unlink(missing_ok=True)
    if as_json:
        print_json(record)
        return
    for source in record["sources"]:
        click.echo(f"{source['name']:<30} {source['utterances']:>10,} utterances")
    measured = record["valid_loss"]
    click.echo(
        f"\n{record['steps']:,} steps in {record['seconds']:.0f} s, loss {record['loss']:.3f}"
        + ("" if measured is None else f", on held-out lines {measured:.3f}")
        + f"; the encoder is in {where}."
    )


def _begin(folder: Path, *, resume: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"Expected a folder to write to, got the file {folder}.")
    finished, begun = (folder / RECORD).exists(), (folder / CHECKPOINT).exists()
    if resume and not begun:
        raise InvalidInput(f"Expected an interrupted pretraining in {folder}, found none.")
    if not resume and (finished or begun):
        raise InvalidInput(
            f"Expected an empty folder, got a finished encoder in {folder}: name another folder."
            if finished
            else f"Expected an empty folder, got an interrupted pretraining in {folder}: name "
            "another folder, or add --resume."
        )
    folder.mkdir(parents=True, exist_ok=True)


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
def _progress() -> "Iterator[Callable[[Moment], None]]":
    """Loss and time left on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("Pretraining"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=None, state="preparing")

    def tell(moment: "Moment") -> None:
        minutes, seconds = divmod(round(moment.seconds_left), 60)
        bar.update(
            task,
            completed=moment.step,
            total=moment.steps,
            state=f"{moment.step:,} of {moment.steps:,} steps  loss {moment.loss:.3f}  "
            f"{minutes}:{seconds:02} left",
        )

    with bar:
        yield tell
