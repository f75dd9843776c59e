"""`sottovoce deid`: release text, with what it costs; train, evaluate and verify."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.console import json_option, print_json, track
from sottovoce.cli.reading import BY_NAME, losses_of, open_corpus, print_losses, reading_options
from sottovoce.corpora import FORMATS, Reader
from sottovoce.corpora.atomic import text_output
from sottovoce.deid import (
    MAPPINGS,
    Deidentifier,
    Fields,
    LabelMap,
    Materials,
    Setting,
    Strategy,
    Vault,
    detector,
    mapping,
    read_labels,
    read_surrogates,
)
from sottovoce.deid.detect import Combination, Evaluation, evaluate
from sottovoce.deid.detect.names import NAMES
from sottovoce.deid.dissociation import counted_surrogates, private_surrogates
from sottovoce.deid.fields import WAYS
from sottovoce.deid.files import release_file
from sottovoce.deid.manifest import SUFFIX
from sottovoce.deid.manifest import verify as verify_release
from sottovoce.deid.replace.vault import KEY_BYTES, WITHIN
from sottovoce.deid.shards import release_shards
from sottovoce.deid.strategies import parse_setting
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.noise import NoiseSource

FROM_CORPUS = ("same-corpus", "dp-histogram")


class ReleasesByDefault(click.Group):
    """A group whose first argument may be a file to release instead of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        helps = ctx.help_option_names
        if args and args[0] not in self.commands and args[0] not in helps:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=ReleasesByDefault)
def deid() -> None:
    """Release text with private values replaced, and say what it costs.

    `sottovoce deid IN -o OUT` is short for `sottovoce deid run IN -o OUT`.
    """


def _labels_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--labels",
        default="standard",
        show_default=True,
        help=f"Mapping of labels to types: {', '.join(MAPPINGS)}, or a JSON file.",
    )(command)


def _detector_options(command: Callable[..., Any]) -> Callable[..., Any]:
    caution = click.option(
        "--caution",
        type=float,
        default=0.0,
        show_default=True,
        help="Least probability of being public that a tagger has to give a word it lets pass.",
    )
    command = caution(command)
    return click.option(
        "--detector",
        "detector_name",
        default="tagger",
        show_default=True,
        help=f"{', '.join(NAMES)} (joined by +), or the file of a tagger or gazetteer.",
    )(command)


@deid.command()
@click.argument("source", metavar="IN")
@click.option("-o", "--output", required=True, help="File to write; - is standard output.")
@click.option("--to", "target_format", type=click.Choice(FORMATS), help=BY_NAME.format("output"))
@click.option(
    "--strategy",
    type=click.Choice([str(each) for each in Strategy]),
    default="entity",
    show_default=True,
)
@click.option("--p", type=float, help="Probability of replacing a private value [default: 1].")
@click.option("--epsilon", type=float, help="What one private token may cost; solves for p.")
@click.option(
    "--type",
    "per_type",
    multiple=True,
    metavar="TYPE=STRATEGY[:p=P|:epsilon=E]",
    help="Another setting for one type; repeatable.",
)
@_detector_options
@_labels_option
@click.option(
    "--surrogates",
    help=f"File of type, value and weight (tabs), or {' or '.join(FROM_CORPUS)} [default: public].",
)
@click.option("--histogram-epsilon", type=float, default=1.0, show_default=True)
@click.option("--histogram-delta", type=float, default=1e-6, show_default=True)
@click.option("--vectors", help="Word vectors for the strategy semantic (.npz or text).")
@click.option("--key", "key_file", help=f"File of {KEY_BYTES} secret bytes for consistency.")
@click.option("--within", type=click.Choice(WITHIN), default="user", show_default=True)
@click.option("--vault", "vault_file", help="Write who became whom here, encrypted with the key.")
@click.option("--delta", type=float, default=0.0, show_default=True)
@click.option("--evaluation", help="JSON of `deid evaluate`: the statement then allows for misses.")
@click.option("--seed", type=int, help="Repeatable, and stamped: for tests alone.")
@click.option("--user", type=click.Choice(WAYS), default="pseudonym", show_default=True)
@click.option("--id", "id_", type=click.Choice(WAYS), default="pseudonym", show_default=True)
@click.option("--keep", multiple=True, metavar="FIELD", help="Another field to release as it is.")
@click.option("--drop-rest", is_flag=True, help="Leave out all other fields.")
@reading_options
@json_option
def run(
    source: str,
    output: str,
    target_format: str | None,
    detector_name: str,
    caution: float,
    labels: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Release the corpus IN (- is standard input) to OUT, and OUT.run.json beside it.

    If IN is a folder, each of its files is released into the folder OUT; after an interruption
    those that are finished are not done again.

    \b
    Examples:
      sottovoce deid calls.jsonl -o released.jsonl --strategy entity --epsilon 3
      sottovoce deid calls.conll -o released.conll --detector gold --labels built-in
      sottovoce deid - --from text -o - --strategy typed < notes.txt
    """
    reading = {
        name: options.pop(name)
        for name in list(options)
        if name in ("source_format", "lenient", "line_limit") or name.endswith("_column")
    }
    readers = [open_corpus(path, **reading) for path in _paths(source)]
    found = detector(detector_name, _labels(labels), caution=caution)
    if "gold" in detector_name.split("+") and any(each.format == "text" for each in readers):
        raise InvalidInput("Expected annotations for the detector gold, got plain text.")
    noise = NoiseSource() if options["seed"] is None else NoiseSource.seeded(options["seed"])
    vault = _vault(options)
    settings: dict[str, Any] = {
        "detector": found,
        "setting": Setting(
            strategy=options["strategy"], p=options["p"], epsilon=options["epsilon"]
        ),
        "per_type": dict(map(parse_setting, options["per_type"])),
        "materials": _materials(options, readers, found, noise, vault),
        "fields": Fields(
            user=options["user"],
            id=options["id_"],
            keep=frozenset(options["keep"]),
            drop_rest=options["drop_rest"],
        ),
        "delta": options["delta"],
        "evaluation": _evaluation(options["evaluation"]),
        "source": noise,
    }
    show = partial(track, description="Releasing", unit="utterances")
    if Path(source).is_dir():
        content = release_shards(lambda: Deidentifier(**settings), readers, output, track=show)
        lines = _shard_lines(content, output)
    else:
        chosen = Deidentifier(**settings)
        content = release_file(chosen, readers[0], output, format=target_format, track=show)
        content |= losses_of(readers[0])
        count = content["metrics"]["utterances"]
        lines = [f"Released {count:,} utterances to {output}.", *chosen.statement().lines()]
    if options["vault_file"] and vault is not None:
        vault.save(options["vault_file"])
    if as_json:
        print_json(content, err=output == "-")
        return
    for line in lines:
        click.echo(line, err=output == "-")
    for reader in readers:
        print_losses(losses_of(reader))


@deid.command()
@click.argument("source", metavar="IN")
@click.option("-o", "--output", required=True, help="File of the tagger to write.")
@_labels_option
@click.option("--test", "test_source", help="Annotated corpus to test the tagger on.")
@click.option("--iterations", type=click.IntRange(min=1), default=80, show_default=True)
@reading_options
@json_option
def train(
    source: str,
    output: str,
    labels: str,
    test_source: str | None,
    iterations: int,
    as_json: bool,
    **reading: Any,
) -> None:
    """Train a tagger on the annotated corpus IN.

    The file holds words of the corpus; guard it like the corpus.

    \b
    Example:
      sottovoce deid train calls.conll -o calls.tagger --labels built-in
    """
    from sottovoce.deid.detect.training import TaggerTraining
    from sottovoce.deid.detect.training import train as train_tagger

    mapped = _labels(labels)
    utterances = track(open_corpus(source, **reading), "Reading", unit="utterances")
    tagger = train_tagger(utterances, mapped, TaggerTraining(iterations=iterations))
    if test_source is not None:
        tested = evaluate(Combination([tagger]), open_corpus(test_source, **reading), mapped)
        tagger.about["evaluation"] = tested.to_json()
    tagger.save(output)
    result = {"output": output, "bytes": Path(output).stat().st_size, **tagger.about}
    if as_json:
        print_json(result)
        return
    click.echo(f"Wrote a tagger of {', '.join(tagger.types)} to {output}.")
    if test_source is not None:
        click.echo("\n".join(tested.lines()))


@deid.command(name="evaluate")
@click.argument("source", metavar="IN")
@_detector_options
@_labels_option
@click.option("-o", "--output", help="Write the evaluation as JSON, for `deid run --evaluation`.")
@click.option("--confidence", type=float, default=0.95, show_default=True)
@reading_options
@json_option
def evaluate_(
    source: str,
    detector_name: str,
    caution: float,
    labels: str,
    output: str | None,
    confidence: float,
    as_json: bool,
    **reading: Any,
) -> None:
    """Compare what a detector finds with the annotations of IN: recall per type, with bounds.

    \b
    Example:
      sottovoce deid evaluate calls.jsonl --labels built-in -o recall.json
    """
    utterances = track(open_corpus(source, **reading), "Evaluating", unit="utterances")
    mapped = _labels(labels)
    chosen = detector(detector_name, mapped, caution=caution)
    found = evaluate(chosen, utterances, mapped, confidence=confidence)
    if output is not None:
        with text_output(output) as stream:
            stream.write(json.dumps(found.to_json(), indent=2) + "\n")
    if as_json:
        print_json(found.to_json())
    else:
        click.echo("\n".join(found.lines()))


@deid.command()
@click.argument("released", metavar="OUT")
@click.option("--input", "source", help="The original, to be checked too.")
@json_option
def verify(released: str, source: str | None, as_json: bool) -> None:
    """Check OUT against its manifest, OUT.run.json: hashes, ledgers and guarantees.

    \b
    Example:
      sottovoce deid verify released.jsonl --input calls.jsonl
    """
    content = verify_release(released, source=source)
    if as_json:
        print_json({"verified": released, "guarantee": content["guarantee"]})
        return
    click.echo(f"{released} is what its manifest describes.")
    click.echo(str(Guarantee.from_json(content["guarantee"])))


def _paths(source: str) -> list[str]:
    if not Path(source).is_dir():
        return [source]
    names = sorted(path for path in Path(source).iterdir() if not path.name.startswith("."))
    return [str(path) for path in names if not path.name.endswith(SUFFIX)]


def _shard_lines(content: Mapping[str, Any], output: str) -> list[str]:
    metrics = content["metrics"]
    stated = [str(Guarantee.from_json(each)) for each in content["guarantees"].values()]
    return [
        f"Released {metrics['utterances']:,} utterances in {metrics['shards']} files to {output} "
        f"({metrics['resumed']} were finished before).",
        *stated,
    ]


def _labels(name: str) -> LabelMap:
    return mapping(name) if name in MAPPINGS else read_labels(name)


def _materials(
    options: Mapping[str, Any],
    readers: Sequence[Reader],
    found: Combination,
    noise: NoiseSource,
    vault: Vault | None,
) -> Materials:
    named = options["surrogates"]
    surrogates = {}
    if named in FROM_CORPUS:
        reader = readers[0]
        if len(readers) > 1 or str(reader.path) == "-":
            raise InvalidInput(f"Expected one file to read twice for {named}, got something else.")
        if named == "same-corpus":
            surrogates = counted_surrogates(reader, found)
        else:
            surrogates = private_surrogates(
                reader,
                found,
                epsilon=options["histogram_epsilon"],
                delta=options["histogram_delta"],
                source=noise,
            )
    elif named:
        surrogates = read_surrogates(named)
    vectors = None
    if options["vectors"]:
        from sottovoce.corpora.wordvectors import read_word_vectors

        vectors = read_word_vectors(options["vectors"])
    return Materials(surrogates=surrogates, vectors=vectors, vault=vault)


def _vault(options: Mapping[str, Any]) -> Vault | None:
    reversible = options["vault_file"] is not None
    if options["key_file"] is None:
        if reversible:
            raise InvalidInput(
                "Expected --key with --vault, got none: nobody could open the vault."
            )
        return Vault.fresh(within=options["within"])
    key = Path(options["key_file"]).read_bytes()
    return Vault(key, within=options["within"], reversible=reversible)


def _evaluation(path: str | None) -> Evaluation | None:
    if path is None:
        return None
    try:
        return Evaluation.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
    except ValueError as problem:
        raise InvalidInput(f"{path}: {problem}") from problem
