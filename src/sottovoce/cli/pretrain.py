"""`sottovoce pretrain`: train an encoder on public text or on public labelled corpora."""

import sys
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.shared.console import json_option, print_json
from sottovoce.cli.shared.options import deprecated_option
from sottovoce.cli.shared.training import steps_bar, stopping
from sottovoce.errors import InvalidInput

CHECKPOINT, RECORD = "checkpoint.pt", "pretraining.json"


@click.command()
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("-o", "--output", "folder", required=True, help="Folder for the encoder.")
@click.option(
    "--labelled",
    is_flag=True,
    help="SOURCES are labelled corpora (files, or folders with train, valid and test): train on "
    "all of them, with one pair of heads each.",
)
@click.option(
    "--encoder",
    help="Initial encoder: minilm, paper (4 layers of width 312, untrained), a folder or a hub "
    "name [default: paper; minilm with --labelled].",
)
@click.option("--epochs", "passes", type=click.IntRange(min=1),
              help="Passes over the data [default: 3; 2 with --labelled].")  # fmt: skip
@deprecated_option("--passes", "--epochs", parameter="passes", type=click.IntRange(min=1))
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="Maximum utterances of each labelled corpus, or lines of all text [default: 8000 per "
    "labelled corpus].",
)
@click.option("--batch-size", type=click.IntRange(min=1), help="[default: 64; 32 with --labelled]")
@click.option("--learning-rate", type=float, help="[default: 0.0005; 0.00012 with --labelled]")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of data order and initial weights."
)
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
    """Train an encoder on public SOURCES, for `sottovoce train --encoder FOLDER`.

    Without --labelled, SOURCES are text, one utterance per line (or any corpus), for masked
    language modelling. The training data is NOT protected: use public data only.

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
    with stopping() as should_stop, steps_bar("Pretraining") as update:
        from sottovoce.nlu.pretraining.job import (
            PretrainingJob,
            pretrain_on_labels,
            pretrain_on_text,
        )

        job = PretrainingJob(
            folder=where,
            start=start,
            checkpoint=where / CHECKPOINT,
            resume=resume,
            on_step=update,
            should_stop=should_stop,
        )
        if labelled:
            record = pretrain_on_labels(sources, job, given)
        else:
            record = pretrain_on_text(sources, job, given, limit)
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
        + ("" if measured is None else f", {measured:.3f} on held-out lines")
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
