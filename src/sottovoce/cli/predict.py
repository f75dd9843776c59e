"""`sottovoce predict`: label utterances with a trained run."""

import io
import json
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import click

from sottovoce.cli.shared.console import json_option, print_json, printable, progress
from sottovoce.cli.shared.options import Named
from sottovoce.corpora import FORMATS, Utterance, read
from sottovoce.corpora.jsonl import dump_object, read_jsonl, read_plain
from sottovoce.corpora.lines import (
    LINE_LIMIT,
    STANDARD_STREAM,
    LiveLines,
    Problems,
    name_of,
    open_bytes,
)
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.nlu.parses import parse_of, utterance_of

if TYPE_CHECKING:
    from sottovoce.nlu.model import JointModel, Prediction


READ_AHEAD = 1024


@click.command()
@click.argument("run")
@click.argument("source", metavar="[IN]", required=False)
@click.option(
    "--text", "texts", multiple=True, help="One utterance, instead of a file; repeatable."
)
@click.option("-o", "--output", default="-", help="File for the predictions, in JSONL.")
@click.option("--from", "source_format", type=Named(FORMATS),
              help="Format of the input [default: by file extension; text or jsonl for -].",
              )  # fmt: skip
@click.option("--batch-size", type=click.IntRange(min=1), default=64, show_default=True,
              help="Utterances per batch.")  # fmt: skip
@click.option("--slot-probabilities", is_flag=True, help="Add the probability of every slot label.")
@json_option
def predict(
    run: str,
    source: str | None,
    texts: tuple[str, ...],
    output: str,
    source_format: str | None,
    batch_size: int,
    slot_probabilities: bool,
    as_json: bool,
) -> None:
    """Label utterances with the model in the folder RUN.

    IN holds lines of text, JSONL, or any format of `corpus`; the default and - are standard input.
    Predictions are JSONL, which `corpus` and `evaluate` read.

    \b
    Examples:
      sottovoce predict RUN --text "play some jazz"
      sottovoce predict RUN test.jsonl -o predicted.jsonl
    """
    if texts and source is not None:
        raise InvalidInput("Expected --text or an input file, got both.")
    from sottovoce.nlu.runs.run import load_run

    utterances = map(utterance_of, texts) if texts else _of_source(source or "-", source_format)
    model = load_run(run).model
    ahead = batch_size if texts or (source or "-") == STANDARD_STREAM else READ_AHEAD
    predicted = _predict(model, utterances, batch_size, ahead)
    if texts and output == STANDARD_STREAM and not as_json:
        for utterance, prediction in predicted:
            _print(utterance, prediction)
        return
    started = time.monotonic()
    count = 0
    with text_output(output) as stream, progress("Predicting", unit="utterances") as update:
        for count, (utterance, prediction) in enumerate(predicted, 1):
            record = to_record(utterance, prediction, slot_probabilities)
            stream.write(dump_object(record) + "\n")
            update(count)
    if output != STANDARD_STREAM:
        seconds = round(time.monotonic() - started, 2)
        if as_json:
            print_json({"utterances": count, "seconds": seconds, "output": output})
        else:
            click.echo(f"Labelled {count:,} utterances in {seconds:g} s: {output}", err=True)


def to_record(
    utterance: Utterance, prediction: "Prediction", slot_probabilities: bool = False
) -> dict[str, Any]:
    """One prediction as a JSON record."""
    record: dict[str, Any] = {
        "text": utterance.text,
        "tokens": list(utterance.tokens),
        "intent": prediction.intent,
        "probability": round(prediction.probability, 6),
        "slots": list(prediction.slots),
    }
    if utterance.id:
        record["id"] = utterance.id
    if slot_probabilities:
        record["slot_probabilities"] = [round(p, 6) for p in prediction.slot_probabilities]
    return record


def _predict(
    model: "JointModel", utterances: Iterable[Utterance], batch_size: int, ahead: int
) -> Iterator[tuple[Utterance, "Prediction"]]:
    """Yield pairs, reading at most `ahead` utterances ahead; more allow batches of one length."""
    stream = iter(utterances)
    while batch := list(islice(stream, ahead)):
        found = model.predict([u.tokens for u in batch], batch_size=batch_size)
        yield from zip(batch, found, strict=True)


def _of_source(source: str, source_format: str | None) -> Iterable[Utterance]:
    if source == STANDARD_STREAM and source_format is None:
        return _of_standard_input()
    return read(source, source_format)


def _of_standard_input() -> Iterator[Utterance]:
    """JSONL if the input starts with a brace, else lines of text."""
    problems = Problems(name_of(STANDARD_STREAM), strict=True)
    empty = True
    with open_bytes(STANDARD_STREAM) as stream:
        waiting: object = stream  # a plain pipe, or decompressed
        if isinstance(waiting, LiveLines):
            beginning = waiting.first_line()
        else:
            beginning = cast(io.BufferedReader, waiting).peek(1)
        beginning = beginning.removeprefix(b"\xef\xbb\xbf")
        reader = read_jsonl if beginning.lstrip()[:1] == b"{" else read_plain
        for utterance in reader(stream, problems, LINE_LIMIT):
            empty = False
            yield utterance
    if empty:
        raise InvalidInput("Expected utterances in standard input, found none.")


def _print(utterance: Utterance, prediction: "Prediction") -> None:
    click.echo(printable(utterance.text))
    click.echo(f"  intent: {printable(prediction.intent)} ({prediction.probability:.2f})")
    for slot in parse_of(utterance, prediction).slots:
        value = json.dumps(printable(slot.value), ensure_ascii=False)
        click.echo(f"  {printable(slot.name)}: {value}")
