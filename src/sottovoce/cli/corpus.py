"""`sottovoce corpus`: make, convert, split and inspect corpora."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.shared.console import json_option, print_json, progress, track
from sottovoce.cli.shared.options import Named
from sottovoce.cli.shared.reading import (
    BY_NAME,
    losses_of,
    open_corpus,
    print_losses,
    reading_options,
)
from sottovoce.corpora import FORMATS, PARTS, Columns, Split, Tally, format_of, shared, write
from sottovoce.corpora.formats import SUFFIXES, TABLES
from sottovoce.corpora.jsonl import jsonl_line
from sottovoce.corpora.splits import SALT, By, parse_ratios
from sottovoce.corpora.tables import FIELDS
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import outputs

PART_NAMES = ("train", "valid", "dev", "test")


@click.group()
def corpus() -> None:
    """Make, convert, split and inspect corpora."""


@corpus.command()
@click.argument("domain")
@click.option("-o", "--output", required=True, help="File to write; - is standard output.")
@click.option("--to", "target_format", type=Named(FORMATS), help=BY_NAME.format("output"))
@click.option(
    "--size",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Number of utterances.",
)
@click.option("--users", type=click.IntRange(min=1), help="Number of users [default: by size].")
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Random seed; equal seeds give equal corpora.",
)
@json_option
def make(
    domain: str,
    output: str,
    target_format: str | None,
    size: int,
    users: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Write a synthetic corpus of DOMAIN: communication, health, video, or your own grammar.

    A grammar is a TOML file of sample utterances, slots and slot values. Its utterances have no
    users.

    \b
    Examples:
      sottovoce corpus make communication -o calls.jsonl --size 5000 --users 100
      sottovoce corpus make flights.toml -o flights.jsonl
    """
    from sottovoce.corpora.synthetic import GRAMMAR, Samples, generate, write_jsonl

    if domain.endswith(GRAMMAR):
        if users is not None:
            raise InvalidInput(
                "Expected --users only with a built-in domain, got them with a grammar."
            )
        drawn = Samples.load(domain).utterances(size, seed)
        write(output, track(drawn, "Making", unit="utterances", total=size), target_format)
    elif (target_format or format_of(output)) == "jsonl":
        with progress("Making", unit="utterances", total=size) as update:
            write_jsonl(output, domain, size=size, users=users, seed=seed, progress=update)
    else:
        made = generate(domain, size=size, users=users, seed=seed)
        write(output, track(made, "Making", unit="utterances", total=size), target_format)
    result = {"domain": domain, "output": output, "utterances": size, "seed": seed}
    _report(result, f"Wrote {size:,} utterances to {output}.", output, as_json)


@corpus.command()
@click.argument("source", metavar="IN")
@click.option("-o", "--output", required=True, help="File to write; - is standard output.")
@click.option("--to", "target_format", type=Named(FORMATS), help=BY_NAME.format("output"))
@reading_options
@json_option
def convert(
    source: str, output: str, target_format: str | None, as_json: bool, **reading: Any
) -> None:
    """Convert the corpus IN (- is standard input) to another format.

    Column options apply to the input if it is a table, else to the output. Plain text keeps only
    the words; every other format also keeps labels, intents and users.

    \b
    Examples:
      sottovoce corpus convert calls.csv -o calls.jsonl --text-column utterance
      sottovoce corpus convert calls.jsonl.gz -o - --to conll | less
    """
    columns = None
    if (reading["source_format"] or format_of(source)) not in TABLES:
        columns = Columns(**{field: reading.pop(f"{field}_column") for field in FIELDS})
    reader = open_corpus(source, **reading)
    utterances = track(reader, "Converting", unit="utterances")
    written = write(output, utterances, target_format, columns=columns)
    result = {"output": output, "utterances": written, **losses_of(reader)}
    _report(result, f"Wrote {written:,} utterances to {output}.", output, as_json)


@corpus.command()
@click.argument("source", metavar="IN")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FOLDER",
    help="Folder for train.jsonl, valid.jsonl and test.jsonl.",
)
@click.option(
    "--ratios", default="45:5:50", show_default=True, help="Relative sizes of train:valid:test."
)
@click.option(
    "--by",
    type=click.Choice(("id", "user", "text")),
    default="id",
    show_default=True,
    help="Key that never occurs in two parts.",
)
@click.option(
    "--salt",
    default=SALT,
    show_default=True,
    help="Salt of the hash; another salt gives another split.",
)
@click.option("--force", is_flag=True, help="Replace parts that are already in the folder.")
@reading_options
@json_option
def split(
    source: str,
    output: str,
    ratios: str,
    by: By,
    salt: str,
    force: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Split the corpus IN into training, validation and test parts.

    A hash of the id (or of the user, or of the text) determines the part of a record. The split is
    reproducible, and adding records never moves others.

    \b
    Example:
      sottovoce corpus split calls.jsonl -o calls --by user
    """
    rule = Split(ratios=parse_ratios(ratios), by=by, salt=salt)
    reader = open_corpus(source, **reading)
    sizes = Counter(dict.fromkeys(PARTS, 0))
    with _folder(output) as folder:
        files = {part: folder / f"{part}.jsonl" for part in PARTS}
        there = [path for path in files.values() if path.exists()]
        if there and not force:
            raise InvalidInput(
                f"Expected a folder without {there[0].name}, got one in {folder}: name another "
                "folder, or add --force to replace the parts."
            )
        with outputs(*files.values()) as streams:
            stream_of = dict(zip(PARTS, streams, strict=True))
            for utterance in track(reader, "Splitting", unit="utterances"):
                part = rule.part(utterance)
                stream_of[part].write(jsonl_line(utterance))
                sizes[part] += 1
    total = sizes.total()
    parts = {part: {"output": str(files[part]), "utterances": sizes[part]} for part in PARTS}
    shares = ", ".join(f"{part} {n:,} ({n / total:.1%})" for part, n in sizes.items())
    result = {"by": by, "ratios": ratios, "salt": salt, "parts": parts, **losses_of(reader)}
    _report(result, f"Wrote {shares} to {folder}.", output, as_json)
    for part in PARTS:
        if not sizes[part]:
            click.echo(f"Warning: {part} is empty; the corpus is too small to split.", err=True)


@corpus.command()
@click.argument("sources", metavar="PATHS...", nargs=-1, required=True)
@reading_options
@json_option
def show(sources: tuple[str, ...], as_json: bool, **reading: Any) -> None:
    """Print statistics of PATHS: files, or folders with train, valid and test.

    Size, users, intents, slots, lengths, vocabulary growth, and utterances that occur in more than
    one part.

    \b
    Examples:
      sottovoce corpus show calls.jsonl
      sottovoce corpus show calls/ --json
    """
    from sottovoce.cli.shared.corpus_tables import print_corpus

    tallies: dict[str, Tally] = {}
    losses: dict[str, dict[str, Any]] = {}
    for name, path in _parts(sources):
        reader = open_corpus(path, **reading)
        tallies[name] = Tally()
        for utterance in track(reader, f"Reading {name}", unit="utterances"):
            tallies[name].add(utterance)
        losses[name] = {"path": path, **losses_of(reader)}
    statistics = {name: tally.statistics() for name, tally in tallies.items()}
    duplicates = {
        name: {other: shared(tally, tallies[other]) for other in tallies if other != name}
        for name, tally in tallies.items()
    }
    if as_json:
        parts = {name: losses[name] | found.to_json() for name, found in statistics.items()}
        print_json({"parts": parts, "duplicates": duplicates})
    else:
        print_corpus(statistics, duplicates)
        for name, lost in losses.items():
            print_losses(lost, name)


@contextmanager
def _folder(path: str) -> Iterator[Path]:
    """The folder, created if missing, and removed again on failure."""
    if path == "-":
        raise InvalidInput("Expected a folder to write, got - (standard output).")
    folder = Path(path)
    created = not folder.exists()
    folder.mkdir(exist_ok=True)
    with ExitStack() as undo:
        if created:
            undo.callback(folder.rmdir)
        yield folder
        undo.pop_all()


def _parts(sources: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """A short name and the path of every file to show."""
    found: list[tuple[str, Path]] = []
    for source in map(Path, sources):
        files = _parts_of(source) if source.is_dir() else [source]
        for file in files:
            short = file.name.split(".")[0] or str(file)
            several = len(sources) > 1
            found.append((f"{source.name}/{short}" if source.is_dir() and several else short, file))
    names = Counter(name for name, _ in found)
    for name, path in found:
        yield name if names[name] == 1 else str(path), str(path)


def _parts_of(folder: Path) -> list[Path]:
    files: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        part, _, rest = file.name.partition(".")
        if part in PART_NAMES and f".{rest.removesuffix('.gz')}" in SUFFIXES:
            if part in files:
                raise InvalidInput(
                    f"Expected one file for {part} in {folder}, got {files[part].name} and "
                    f"{file.name}: name the files instead."
                )
            files[part] = file
    if not files:
        raise InvalidInput(
            f"Expected train, valid or test files (such as train.jsonl) in {folder}, found none."
        )
    return [files[part] for part in PART_NAMES if part in files]


def _report(result: dict[str, Any], sentence: str, output: str, as_json: bool) -> None:
    """Print the result; on stderr if stdout holds the corpus."""
    if as_json:
        print_json(result, err=output == "-")
    else:
        click.echo(sentence, err=output == "-")
        print_losses(result)
