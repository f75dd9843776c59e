"""`sottovoce deid train`: train a tagger on an annotated corpus."""

from pathlib import Path
from typing import Any

import click

from sottovoce.cli.deid.detection import threshold_of
from sottovoce.cli.deid.options import chosen_labels, labels_option
from sottovoce.cli.shared.console import json_option, print_json, track
from sottovoce.cli.shared.options import deprecated_option
from sottovoce.cli.shared.reading import open_corpus, reading_options
from sottovoce.deid.detect import Combination, evaluate


@click.command()
@click.argument("source", metavar="IN")
@click.option("-o", "--output", required=True, help="File of the tagger to write.")
@labels_option
@click.option("--test", "test_source", help="Annotated corpus to evaluate the tagger on.")
@click.option("--valid", "valid_source", help="Annotated corpus to choose the threshold on.")
@click.option(
    "--recall-target",
    type=click.FloatRange(0, 1),
    default=0.98,
    show_default=True,
    help="Recall to reach on --valid; the largest threshold that reaches it is stored.",
)
@deprecated_option("--recall", "--recall-target", type=click.FloatRange(0, 1))
@click.option(
    "--iterations",
    type=click.IntRange(min=1),
    default=80,
    show_default=True,
    help="Passes of the optimiser over the corpus.",
)
@reading_options
@json_option
def train(
    source: str,
    output: str,
    labels: str,
    test_source: str | None,
    valid_source: str | None,
    recall_target: float,
    iterations: int,
    as_json: bool,
    **reading: Any,
) -> None:
    """Train a tagger on the annotated corpus IN.

    The file contains words of the corpus: protect it like the corpus. Use different corpora for
    --valid and --test: recall on the corpus that the threshold was chosen on is too optimistic.

    \b
    Example:
      sottovoce deid train calls.conll -o calls.tagger --labels built-in --valid other.conll
    """
    from sottovoce.deid.detect.crf.training import TaggerTraining, choose_caution
    from sottovoce.deid.detect.crf.training import train as train_tagger

    mapped = chosen_labels(labels)
    utterances = track(open_corpus(source, **reading), "Reading", unit="utterances")
    tagger = train_tagger(utterances, mapped, TaggerTraining(iterations=iterations))
    if valid_source is not None:
        held_out = open_corpus(valid_source, **reading)
        tagger.about["caution"] = choose_caution(tagger, held_out, mapped, recall=recall_target)
        tagger = tagger.with_caution(tagger.own_caution)
    if test_source is not None:
        tested = evaluate(Combination([tagger]), open_corpus(test_source, **reading), mapped)
        tagger.about["evaluation"] = tested.to_json()
    tagger.save(output)
    result = {
        "output": output,
        "bytes": Path(output).stat().st_size,
        "threshold": threshold_of(tagger.caution),
        **tagger.about,
    }
    if as_json:
        print_json(result)
        return
    click.echo(f"Wrote a tagger of {', '.join(tagger.types)} to {output}.")
    if valid_source is not None:
        click.echo(f"Its threshold is {threshold_of(tagger.caution):g}.")
    if test_source is not None:
        click.echo("\n".join(tested.lines()))
