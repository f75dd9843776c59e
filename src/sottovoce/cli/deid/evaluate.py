"""`sottovoce deid evaluate`: recall of a detector."""

import json
from dataclasses import replace
from typing import Any

import click

from sottovoce.cli.deid.detection import Detection, detector_options
from sottovoce.cli.deid.options import chosen_labels, labels_option
from sottovoce.cli.shared.console import json_option, print_json, track
from sottovoce.cli.shared.reading import open_corpus, reading_options
from sottovoce.deid.detect import evaluate
from sottovoce.deid.detect.stability import stability
from sottovoce.io.atomic import text_output


@click.command(name="evaluate")
@click.argument("source", metavar="IN")
@detector_options
@labels_option
@click.option("-o", "--output", help="Write the evaluation as JSON, for `deid run --evaluation`.")
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="Confidence level of the lower bounds.",
)
@reading_options
@json_option
def evaluate_verb(
    source: str,
    detection: Detection,
    labels: str,
    output: str | None,
    confidence: float,
    as_json: bool,
    **reading: Any,
) -> None:
    """Compare a detector with the annotations of IN: recall by type, with lower bounds.

    Stability is how often swapping one private value for another changes any other mark.

    \b
    Example:
      sottovoce deid evaluate calls.jsonl --labels built-in -o recall.json
    """
    utterances = track(open_corpus(source, **reading), "Evaluating", unit="utterances")
    mapped = chosen_labels(labels)
    chosen = detection.detector(mapped)
    corpus = list(utterances)
    found = replace(
        evaluate(chosen, corpus, mapped, confidence=confidence),
        stability=stability(chosen, corpus, mapped, confidence=confidence),
    )
    if output is not None:
        with text_output(output) as stream:
            stream.write(json.dumps(found.to_json(), indent=2) + "\n")
    if as_json:
        print_json(found.to_json())
    else:
        click.echo("\n".join(found.lines()))
