"""`sottovoce deid run`: release a corpus with a privacy statement."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.deid.detection import Detection, detector_options
from sottovoce.cli.deid.options import (
    chosen_labels,
    evaluation_of,
    labels_option,
    resources,
    vault_of,
)
from sottovoce.cli.shared.book import Charges, book_options
from sottovoce.cli.shared.console import json_option, print_json, track
from sottovoce.cli.shared.options import Named, deprecated_option
from sottovoce.cli.shared.reading import (
    BY_NAME,
    losses_of,
    open_corpus,
    print_losses,
    reading_options,
)
from sottovoce.corpora import FORMATS, Reader
from sottovoce.deid import Deidentifier, Fields, Setting
from sottovoce.deid.detect.measuring import Measuring
from sottovoce.deid.files.corpus_file import release_file
from sottovoce.deid.files.fields import POLICIES
from sottovoce.deid.files.manifest import WARNING
from sottovoce.deid.files.nested import nested_reader
from sottovoce.deid.files.shards import release_shards
from sottovoce.deid.files.stream import release_stream
from sottovoce.deid.replace.sources import SOURCES
from sottovoce.deid.replace.strategies import STRATEGIES, Fit, parse_setting
from sottovoce.deid.replace.vault import KEY_BYTES, WITHIN
from sottovoce.errors import InvalidInput
from sottovoce.io.run import SUFFIX
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.noise import NoiseSource


@click.command()
@click.argument("source", metavar="IN")
@click.option(
    "-o", "--output", default="-", show_default=True, help="File to write; - is standard output."
)
@click.option("--to", "target_format", type=Named(FORMATS), help=BY_NAME.format("output"))
@click.option(
    "--strategy",
    type=Named(STRATEGIES),
    default="entity",
    show_default=True,
    help="How private values are replaced.",
)
@click.option("--p", type=float, help="Probability of replacing a private value [default: 1].")
@click.option("--epsilon", type=float, help="Epsilon of one private token; determines p.")
@click.option(
    "--type",
    "per_type",
    multiple=True,
    metavar="TYPE=STRATEGY[:p=P|:epsilon=E|:last=N]",
    help="Override the setting for one type; repeatable.",
)
@detector_options
@labels_option
@click.option(
    "--surrogates",
    help="Tab-separated file of type, value and weight, or "
    f"{' or '.join(SOURCES)} [default: public].",
)
@click.option(
    "--fit",
    type=click.Choice([str(each) for each in Fit]),
    default=str(Fit.FORM),
    show_default=True,
    help="What surrogates share with the values they replace, which reveals it: form (number of "
    "words, wording), grammar (also gender and plural), or none.",
)
@deprecated_option(
    "--like-for-like", "--fit", hint=lambda fit: f" {fit}", is_flag=True, flag_value="grammar"
)
@click.option(
    "--histogram-epsilon",
    type=float,
    default=1.0,
    show_default=True,
    help="Epsilon of counting the surrogates, with dp-histogram.",
)
@click.option(
    "--histogram-delta",
    type=float,
    default=1e-6,
    show_default=True,
    help="Delta of counting the surrogates, with dp-histogram.",
)
@click.option("--vectors", help="Word vectors for the strategy semantic (.npz or text).")
@click.option(
    "--key", "key_file", help=f"File of {KEY_BYTES} secret bytes, for consistent, hash and encrypt."
)
@click.option(
    "--within",
    type=click.Choice(WITHIN),
    default="user",
    show_default=True,
    help="Scope in which equal values get equal surrogates, with consistent.",
)
@click.option(
    "--vault",
    "vault_file",
    help="Write what was replaced here, encrypted with the key, for `deid restore`.",
)
@click.option(
    "--delta",
    type=float,
    default=0.0,
    show_default=True,
    help="Failure probability delta of the statement.",
)
@click.option(
    "--evaluation", help="JSON of `deid evaluate`: the statement then accounts for missed values."
)
@click.option(
    "--examples",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Pairs of private and released text to add to the manifest, for a report.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes that share the work on a file of JSONL or plain text.",
)
@click.option(
    "--manifest",
    "manifest_file",
    help="With standard output: write the manifest here (OUT.run.json), for the output OUT.",
)
@click.option("--seed", type=int, help="For tests: repeatable output, marked as seeded.")
@click.option(
    "--user",
    type=click.Choice(POLICIES),
    default="pseudonym",
    show_default=True,
    help="How to release user names.",
)
@click.option(
    "--id",
    "id_",
    type=click.Choice(POLICIES),
    default="pseudonym",
    show_default=True,
    help="How to release utterance ids.",
)
@click.option(
    "--field",
    multiple=True,
    metavar="PATH",
    help="Path of texts in JSON records, such as turns[].text; repeatable. Conversations "
    "(messages, ShareGPT) are recognised.",
)
@click.option(
    "--keep", multiple=True, metavar="FIELD", help="Another field to release unchanged; repeatable."
)
@click.option("--drop-rest", is_flag=True, help="Drop all other fields.")
@book_options
@reading_options
@json_option
def run(
    source: str,
    output: str,
    target_format: str | None,
    detection: Detection,
    labels: str,
    book: str | None,
    people: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Release the corpus IN (- is standard input) to OUT, with the manifest OUT.run.json.

    Without -o, every line goes to standard output as soon as it is read, and the statement to
    standard error at the end, also after Ctrl-C. The format of standard input is recognised from
    its first line. If IN is a folder, each of its files is released into the folder OUT; an
    interrupted release resumes after the files that are finished.

    \b
    Examples:
      sottovoce deid calls.jsonl -o released.jsonl --strategy entity --epsilon 3
      sottovoce deid calls.conll -o released.conll --detector gold --labels built-in
      tail -f app.log | sottovoce deid - --strategy typed
    """
    reading = {
        name: options.pop(name)
        for name in list(options)
        if name in ("source_format", "lenient", "line_limit") or name.endswith("_column")
    }
    readers = [_opened(path, options, reading) for path in _paths(source)]
    chosen_map = chosen_labels(labels)
    found = detection.detector(chosen_map)
    if "gold" in detection.name.split("+") and any(each.format == "text" for each in readers):
        raise InvalidInput(
            "Expected annotations for the detector gold, got plain text: use another detector."
        )
    noise = NoiseSource() if options["seed"] is None else NoiseSource.seeded(options["seed"])
    vault = vault_of(options)
    gold = "gold" in detection.name.split("+")
    watched = None if gold else Measuring.watching(found, chosen_map)
    settings: dict[str, Any] = {
        "detector": watched or found,
        "setting": Setting(
            strategy=options["strategy"], p=options["p"], epsilon=options["epsilon"]
        ),
        "per_type": dict(map(parse_setting, options["per_type"])),
        "resources": resources(options, readers, found, noise, vault, language=detection.language),
        "fields": Fields(
            user=options["user"],
            id=options["id_"],
            keep=frozenset(options["keep"]),
            drop_rest=options["drop_rest"],
        ),
        "delta": options["delta"],
        "evaluation": evaluation_of(options["evaluation"]),
        "source": noise,
    }
    examples = options["examples"]
    if examples:
        click.echo(WARNING, err=True)
    show = partial(track, description="Releasing", unit="utterances")
    if options["workers"] > 1 and output == "-":
        raise InvalidInput("Expected one worker without -o, got several: name an output file.")
    if book is not None and output == "-":
        raise InvalidInput(
            "Expected a file to write with --book, got standard output: what a stream costs is "
            "known only when it was read. Name a file with -o."
        )
    charges = Charges(book, people, "deid")
    if watched is not None and options["workers"] > 1:
        for reader in readers:
            watched.measure(reader)
        watched.finish()
    if options["manifest_file"] and output != "-":
        raise InvalidInput(
            f"Expected --manifest without -o, got -o {output}: the manifest is beside it."
        )
    if Path(source).is_dir():
        if output == "-":
            raise InvalidInput("Expected a folder to write with -o, got none: name one.")
        content = release_shards(
            lambda: Deidentifier(**settings),
            readers,
            output,
            track=show,
            examples=examples,
            workers=options["workers"],
            before=charges.reserve,
        )
        lines = _shard_lines(content, output)
    else:
        chosen = Deidentifier(**settings)
        release = (
            partial(release_stream, manifest_file=options["manifest_file"])
            if output == "-"
            else partial(
                release_file,
                output=output,
                workers=options["workers"],
                before=charges.reserve,
            )
        )
        content = release(chosen, readers[0], format=target_format, track=show, examples=examples)
        content |= losses_of(readers[0])
        count = content["metrics"]["utterances"]
        where = "standard output" if output == "-" else output
        lines = [f"Released {count:,} utterances to {where}.", *chosen.statement().lines()]
    charges.settle()
    if options["vault_file"] and vault is not None:
        vault.save(options["vault_file"])
    if as_json:
        print_json(content, err=output == "-")
        return
    for line in lines:
        click.echo(line, err=output == "-")
    if watched is not None:
        for line in _missed(watched):
            click.echo(line, err=True)
    for reader in readers:
        print_losses(losses_of(reader))


def _opened(path: str, options: Mapping[str, Any], reading: Mapping[str, Any]) -> Reader:
    reader = open_corpus(path, by_content=True, **reading)
    return nested_reader(reader, options["field"], options["keep"]) or reader


def _paths(source: str) -> list[str]:
    if not Path(source).is_dir():
        return [source]
    paths = sorted(
        path
        for path in Path(source).iterdir()
        if not path.name.startswith(".") and not path.name.endswith(SUFFIX)
    )
    if not paths:
        raise InvalidInput(f"Expected files in the folder {source}, found none.")
    return [str(path) for path in paths]


def _missed(watched: Measuring) -> list[str]:
    """What the annotations say about the detector; private, so it goes to the screen only."""
    lines = []
    found = watched.evaluation()
    if found is not None:
        values = sum(each.values for each in found.types.values())
        left = sum(each.missed_values for each in found.types.values())
        lines.append(
            f"By its annotations, {left:,} of {values:,} private values are still in the text; "
            "the counts by type are in private/."
        )
    if watched.unknown:
        names = ", ".join(sorted(watched.unknown)[:5])
        lines.append(f"Annotations that --labels does not map were not counted: {names}.")
    return lines


def _shard_lines(content: Mapping[str, Any], output: str) -> list[str]:
    metrics = content["metrics"]
    stated = [str(Guarantee.from_json(each)) for each in content["guarantees"].values()]
    return [
        f"Released {metrics['utterances']:,} utterances in {metrics['shards']} files to {output} "
        f"({metrics['resumed']} already finished).",
        *stated,
    ]
