"""`sottovoce rescore`: rescore N-best lists with a language model adapted to each client."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import click

from sottovoce.cli.lm import load_vocabulary
from sottovoce.cli.shared.console import json_option, print_json
from sottovoce.cli.shared.nbest_lists import nbest_options, read_lists, with_clients
from sottovoce.cli.shared.options import deprecated_option
from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.io.run import Run, header
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.federated.marginals import Marginals, guarantee_of, ledger_of
from sottovoce.personalize.federated.pairs import SharedPairs
from sottovoce.personalize.lm.language_model import LanguageModel, load_lm
from sottovoce.personalize.lm.mixture import WordModel, mixed
from sottovoce.personalize.lm.vocabulary import Vector
from sottovoce.personalize.nbest.lists import NBest
from sottovoce.personalize.rescoring.outcome import Outcome
from sottovoce.personalize.rescoring.personal import BiasList, CacheSettings, read_bias
from sottovoce.personalize.rescoring.run import (
    POWERS,
    Tuned,
    choose,
    rescore,
    split_clients,
    tune_weights,
)
from sottovoce.personalize.rescoring.scores import ALPHA, BETA, BETA_ALONE, SIGMA, Adaptation
from sottovoce.personalize.rescoring.stream import Personalisation
from sottovoce.personalize.rescoring.trusting import (
    Sources,
    Trust,
    choose_personal,
    rescore_personal,
    tune_trust,
)


@click.command(name="rescore")
@click.argument("nbest")
@click.option("--lm", "models", required=True, multiple=True,
              help="Folder of `lm train` or Hugging Face, ARPA file or KenLM binary; "
              "several of `lm train` are mixed with equal weights.")  # fmt: skip
@click.option("--vocabulary", help="Public vocabulary for a KenLM or Hugging Face model.")
@click.option("--kenlm", is_flag=True, help="Score an ARPA file with KenLM.")
@click.option("--marginals", help="marginals.json of `federate`, for the global term.")
@click.option("--pairs", help="marginals.json of `federate --pairs-of`, mixed into the model.")
@click.option("--pair-strength", type=float, default=0.6, show_default=True,
              help="Maximum weight of the pairs.")  # fmt: skip
@click.option("--bias", metavar="FILE",
              help="Words and phrases to expect (contacts, titles): lines `phrase`, or `client`, a "
              "tab and `phrase`.")  # fmt: skip
@click.option("--boost", type=float, default=CacheSettings().boost, show_default=True,
              help="Bonus of a word in a listed phrase, in nats.")  # fmt: skip
@nbest_options
@click.option(
    "--paper",
    is_flag=True,
    help="Adapt by unigram factors, as the paper does; so do the next six options.",
)
@click.option("--alpha", type=float,
              help=f"Weight of the shared marginals [default: {ALPHA} with --marginals]."
              )  # fmt: skip
@click.option("--beta", type=float,
              help=f"Weight of personal counts [default: {BETA_ALONE}; {BETA} with --marginals]."
              )  # fmt: skip
@click.option("--clip", type=float, help="Maximum absolute log factor of a word.")
@click.option("--sigma", type=float, help=f"Width of the rank kernel [default: {SIGMA:g}].")
@click.option("--trust", type=float, help="Count at which a word gets half its personal weight.")
@click.option("--unnormalised", "shortcut", is_flag=True,
              help="Skip normalisation, as the paper does.")  # fmt: skip
@deprecated_option("--shortcut", "--unnormalised", parameter="shortcut", is_flag=True)
@click.option("--dev-share", type=float, default=0.3, show_default=True,
              help="Fraction of clients to tune weights on, excluded from evaluation.")  # fmt: skip
@click.option("--weights", help="Use these tuned weights and evaluate on all clients.")
@click.option("--save-weights", help="File for the tuned weights.")
@click.option("-o", "--output",
              help="Folder for run.json, with the chosen texts in its private folder; or a .jsonl "
              "file for the texts.")  # fmt: skip
@json_option
def rescore_verb(nbest: str, models: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Rescore the hypotheses in NBEST; print word error rates before and after.

    What a client said before is mixed into the model, as far as it helps the clients that weights
    are tuned on and predicts the client's own words; else the result is that of the model alone.
    Lists without references are rescored with --weights: the chosen texts are printed, or written
    to --output.

    \b
    Example: sottovoce rescore heard.jsonl --lm lm/ --marginals marginals/marginals.json
    """
    started = time.monotonic()
    words = load_vocabulary(options["vocabulary"]) if options["vocabulary"] else None
    loaded = mixed([load_lm(model, words, kenlm=options["kenlm"]) for model in models])
    source_format = options["source_format"]
    lists = with_clients(read_lists(nbest, options))
    marginals = Marginals.load(options["marginals"]) if options["marginals"] else None
    everybody = marginals.over(loaded.vocabulary) if marginals else None
    released = _released_pairs(options, marginals)
    pairs = SharedPairs(released, strength=options["pair_strength"]) if released else None
    method = _method(options, loaded, everybody, pairs)
    used = [each for each in (released, marginals) if each is not None]
    # Derived from the ledgers in the files; guarantees stated there are not trusted.
    guarantee = guarantee_of(*used) if used else None
    if guarantee is not None and not guarantee.holds:
        click.echo(str(guarantee), err=True)
    if not all(each.reference is not None for each in lists):
        if not options["weights"]:
            raise InvalidInput(
                "Expected a reference for every list to tune weights on, got lists without: give "
                "--references FILE, or --weights FILE of an earlier run to rescore without them."
            )
        texts = method.choose(lists, method.read(_read_json(options["weights"])))
        _write_texts(texts, options["output"])
        return
    if options["weights"]:
        tuned, evaluated = method.read(_read_json(options["weights"])), lists
    else:
        dev, evaluated = split_clients(lists, options["dev_share"])
        tuned = method.tune(dev)
    outcome = method.rescore(evaluated, tuned)
    if options["save_weights"]:
        with text_output(options["save_weights"]) as stream:
            json.dump(tuned.to_json(), stream, indent=2)
    seconds = round(time.monotonic() - started, 2)
    result = {**outcome.to_json(), "tuned": tuned.to_json(), "seconds": seconds}
    if options["output"]:
        run = {
            **header("rescore"),
            "configuration": {"lm": ", ".join(models), "from": source_format, **options},
            "seed": None,
            "ledger": ledger_of(*used).to_json() if guarantee and guarantee.holds else None,
            # Personal counts stay on the device; only marginals and pairs were released.
            "guarantee": guarantee.to_json() if guarantee else None,
            # The claim for pairs includes the words that they were made from.
            "claimed": used[0].about.get("claimed") if used else None,
            "metrics": outcome.to_json(),
            "tuned": tuned.to_json(),
            "timings": {"seconds": seconds},
            "data": {"name": Path(nbest).name, "test": len(evaluated)},
        }
        _write(Path(options["output"]), outcome.texts, run)
    if as_json:
        print_json(result)
    else:
        _print(result)


def _write(output: Path, texts: dict[str, str], run: dict[str, Any]) -> None:
    """Write the texts as JSONL and the run next to them.

    The texts and the error rates measured on them are private: in a folder, both go to its private
    part.
    """
    folder = Run.beside(output) if output.suffix == ".jsonl" else Run(output)
    with text_output(_texts_path(output), mode=0o600) as stream:
        for name, text in texts.items():
            stream.write(json.dumps({"id": name, "text": text}, ensure_ascii=False) + "\n")
    folder.write_run(run)


def _write_texts(texts: dict[str, str], output: str | None) -> None:
    """The chosen texts, which nobody evaluates."""
    lines = [
        json.dumps({"id": name, "text": text}, ensure_ascii=False) for name, text in texts.items()
    ]
    if not output:
        click.echo("\n".join(lines))
        return
    chosen = _texts_path(Path(output))
    with text_output(chosen, mode=0o600) as stream:
        stream.write("".join(f"{line}\n" for line in lines))
    click.echo(f"Chose {len(lines):,} texts; they are in {chosen}.")


def _texts_path(output: Path) -> Path:
    return output if output.suffix == ".jsonl" else Run(output).private("chosen.jsonl")


def _released_pairs(options: dict[str, Any], marginals: Marginals | None) -> Marginals | None:
    if options["pairs"] is None:
        return None
    released = Marginals.load(options["pairs"])
    if marginals is not None and released.about.get("words_from") != marginals.digest:
        raise InvalidInput(
            f"Expected the marginals that the pairs in {options['pairs']} were made of, got "
            "others: the total cost is known only for those."
        )
    return released


class _Method(Protocol):
    """How lists are adapted to their clients; `tuned` is what the method itself has tuned."""

    def tune(self, lists: list[NBest]) -> Any: ...
    def read(self, data: Any) -> Any: ...
    def choose(self, lists: list[NBest], tuned: Any) -> dict[str, str]: ...
    def rescore(self, lists: list[NBest], tuned: Any) -> Outcome: ...


@dataclass(frozen=True)
class _Personal:
    """What the client said lately, and bias lists."""

    model: WordModel
    sources: Sources

    def tune(self, lists: list[NBest]) -> Trust:
        return tune_trust(lists, self.model, self.sources)

    def read(self, data: Any) -> Trust:
        return Trust.from_json(data)

    def choose(self, lists: list[NBest], tuned: Trust) -> dict[str, str]:
        return choose_personal(lists, self.model, tuned, self.sources)[1]

    def rescore(self, lists: list[NBest], tuned: Trust) -> Outcome:
        return rescore_personal(lists, self.model, tuned, self.sources)


@dataclass(frozen=True)
class _Paper:
    """The paper's factors."""

    model: LanguageModel
    settings: Personalisation
    everybody: Vector | None

    def tune(self, lists: list[NBest]) -> Tuned:
        return tune_weights(lists, self.model, self.settings, self.everybody, powers=POWERS)

    def read(self, data: Any) -> Tuned:
        return Tuned.from_json(data)

    def choose(self, lists: list[NBest], tuned: Tuned) -> dict[str, str]:
        return choose(lists, self.model, self.settings, tuned, self.everybody)

    def rescore(self, lists: list[NBest], tuned: Tuned) -> Outcome:
        return rescore(lists, self.model, self.settings, tuned, self.everybody)


_OF_THE_PAPER = ("alpha", "beta", "clip", "sigma", "trust")


def _method(
    options: dict[str, Any],
    model: LanguageModel,
    everybody: Vector | None,
    pairs: SharedPairs | None,
) -> _Method:
    asked = options["paper"] or options["shortcut"]
    asked = asked or any(options[name] is not None for name in _OF_THE_PAPER)
    bias, own = _read_bias(options["bias"])
    # Models of word pieces have no scores per word.
    if asked or not hasattr(model, "score_words"):
        if bias or own:
            raise InvalidInput(
                "Expected no --bias with the paper's factors or with a model of word pieces, got "
                "one: use an n-gram or a Transformer of `lm train`, without the paper's options."
            )
        return _Paper(model, _settings(options, pairs, shared=everybody is not None), everybody)
    cache = CacheSettings(boost=options["boost"])
    sources = Sources(everybody=everybody, pairs=pairs, bias=bias, own_bias=own, cache=cache)
    return _Personal(cast(WordModel, model), sources)


def _read_bias(path: str | None) -> tuple[BiasList, Mapping[str, BiasList]]:
    if path is None:
        return BiasList(), {}
    with open_bytes(path) as stream:
        problems = Problems(path, strict=True)
        return read_bias(line for _, line in text_lines(stream, problems, LINE_LIMIT))


def _settings(
    options: dict[str, Any], pairs: SharedPairs | None, *, shared: bool
) -> Personalisation:
    adaptation = Adaptation.usual(
        shared=shared,
        alpha=options["alpha"],
        beta=options["beta"],
        clip=options["clip"],
        normalise=not options["shortcut"],
    )
    return Personalisation(
        adaptation=adaptation,
        counting=Counting(sigma=SIGMA if options["sigma"] is None else options["sigma"]),
        trust=options["trust"],
        pairs=pairs,
    )


def _read_json(path: str) -> Any:
    try:
        return json.loads(Path(path).read_bytes())
    except ValueError as problem:
        raise InvalidInput(f"Expected tuned weights in {path}: {problem}.") from problem


def _print(result: dict[str, Any]) -> None:
    click.echo(
        f"{result['utterances']:,} utterances of {result['clients']:,} clients, "
        f"{result['words']:,} words; word error rate with 95 % interval over clients:"
    )
    for name in ("first_pass", "background", "adapted", "oracle"):
        low, high = result[name]["interval"]
        label = name.replace("_", " ")
        click.echo(f"  {label:<12}{result[name]['wer']:8.2f} %   [{low:.2f}, {high:.2f}]")
    change = result["change_from_background"]
    low, high = change["interval"]
    click.echo(
        f"Adapted against background: {change['relative']:+.1f} % [{low:+.1f}, {high:+.1f}]."
    )
    for name, label in (("rare_words", "Rare words"), ("other_words", "Other words")):
        part = result[name]
        click.echo(
            f"{label}: {part['background_errors']} errors before, {part['adapted_errors']} after, "
            f"in {part['words']:,}."
        )
