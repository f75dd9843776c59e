"""`sottovoce lm`: train background language models on public text."""

import time
from itertools import chain
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.lm_tune import convert, sample, tune
from sottovoce.cli.shared.console import json_option, print_json, progress
from sottovoce.cli.shared.options import deprecated_option
from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.language_model import (
    compile_ngram,
    load_lm,
    save_ngram,
    save_transformer,
)
from sottovoce.personalize.lm.ngram.model import NGramModel
from sottovoce.personalize.lm.ngram.training import perplexity, train_ngram
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.lists import normal_text

_KIND_NAMES = {"ngram": "an n-gram model", "transformer": "a Transformer"}


@click.group()
def lm() -> None:
    """Train background language models on public text, and adapt them to private text."""


lm.add_command(tune)
lm.add_command(sample)
lm.add_command(convert)


@lm.command()
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...")
@click.option("-o", "--output", "folder", required=True, help="Folder for the model.")
@click.option(
    "--kind",
    type=click.Choice(["ngram", "transformer"]),
    default="ngram",
    show_default=True,
    help="Kneser-Ney n-gram, or the paper's Transformer (needs torch).",
)
@click.option("--order", type=int, default=4, show_default=True, help="Order of the n-gram model.")
@click.option("--vocabulary-size", type=int, default=20_000, show_default=True,
              help="Most frequent words to keep.")  # fmt: skip
@deprecated_option("--size", "--vocabulary-size", type=int)
@click.option("--extra-words", help="File with more public words, one per line.")
@deprecated_option("--listed", "--extra-words")
@click.option("--valid", help="Validation text for perplexity [default: every 50th line].")
@click.option("--epochs", type=int, default=3, show_default=True, help="Epochs of the Transformer.")
@click.option("--batch-words", type=int, default=2048, show_default=True,
              help="Words per batch; smaller batches help on small corpora.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the Transformer.")
@click.option("--as-is", is_flag=True, help="Keep case and punctuation.")
@json_option
def train(
    texts: tuple[str, ...], folder: str, kind: str, as_json: bool, as_is: bool, **options: Any
) -> None:
    """Train on public text, one utterance per line. An interrupted Transformer training resumes.

    \b
    Example: sottovoce lm train public.txt.gz --kind ngram --order 4 -o lm/
    """
    started = time.monotonic()
    lines = list(chain.from_iterable(_lines(path, as_is) for path in texts))
    if options["valid"]:
        train_part, valid = lines, _lines(options["valid"], as_is)
    else:
        valid = lines[::50]
        train_part = [line for place, line in enumerate(lines) if place % 50]
    if not train_part:
        raise InvalidInput(f"Expected public text in {', '.join(texts)}, got at most one line.")
    extra = _lines(options["extra_words"], as_is) if options["extra_words"] else []
    vocabulary = Vocabulary.from_text(train_part, options["vocabulary_size"], extra)
    metrics: dict[str, Any] = {"lines": len(train_part), "words": len(vocabulary)}
    if kind == "ngram":
        model = train_ngram(train_part, vocabulary, options["order"])
        save_ngram(folder, model)
        metrics["valid_perplexity"] = round(perplexity(model, valid), 3)
    else:
        metrics |= _train_transformer(folder, vocabulary, train_part, valid, options)
    metrics["seconds"] = round(time.monotonic() - started, 1)
    if as_json:
        print_json({"folder": folder, "kind": kind, **metrics})
    else:
        click.echo(
            f"Trained {_KIND_NAMES[kind]} of {metrics['words']:,} words on {metrics['lines']:,} "
            f"lines; perplexity {metrics['valid_perplexity']:g}; saved in {folder}."
        )


@lm.command("compile")
@click.argument("model")
@click.option("-o", "--output", "folder", required=True, help="Folder for the compiled model.")
@json_option
def compile_(model: str, folder: str, as_json: bool) -> None:
    """Compile the n-gram model in MODEL into a memory-mapped format that loads instantly.

    MODEL is an ARPA file or a folder of `lm train`.

    \b
    Example: sottovoce lm compile model.arpa.gz -o lm/
    """
    loaded = load_lm(model)
    if not isinstance(loaded, NGramModel):
        raise InvalidInput(f"Expected an n-gram in {model}, got another kind of model.")
    compile_ngram(folder, loaded)
    count = sum(order.keys.size for order in loaded.orders)
    if as_json:
        print_json({"folder": folder, "ngrams": count, "words": len(loaded.vocabulary)})
    else:
        click.echo(f"Compiled {count:,} n-grams of {len(loaded.vocabulary):,} words into {folder}.")


@lm.command()
@click.argument("model")
@click.argument("text")
@click.option("--vocabulary", help="Public vocabulary for a KenLM or Hugging Face model.")
@click.option("--kenlm", is_flag=True, help="Score an ARPA file with KenLM.")
@click.option("--as-is", is_flag=True, help="Keep case and punctuation.")
@json_option
def score(
    model: str, text: str, vocabulary: str | None, kenlm: bool, as_is: bool, as_json: bool
) -> None:
    """Print the log probability of every line of TEXT under MODEL.

    MODEL is a folder of `lm train`, an ARPA file, a KenLM binary, or a Hugging Face folder.

    \b
    Example: sottovoce lm score lm/ sentences.txt
    """
    loaded = load_lm(model, load_vocabulary(vocabulary) if vocabulary else None, kenlm=kenlm)
    lines = _lines(text, as_is)
    scores = loaded.score([line.split() for line in lines])
    if as_json:
        print_json([{"text": t, "log_probability": s} for t, s in zip(lines, scores, strict=True)])
    else:
        for line, value in zip(lines, scores, strict=True):
            click.echo(f"{value:.4f}\t{line}")


def load_vocabulary(path: str) -> Vocabulary:
    """Load a vocabulary from its file or from a model folder."""
    inner = Path(path, "vocabulary.json")
    return Vocabulary.load(inner if Path(path).is_dir() else path)


def _train_transformer(
    folder: str, vocabulary: Vocabulary, lines: list[str], valid: list[str], options: dict[str, Any]
) -> dict[str, Any]:
    import torch

    from sottovoce.personalize.lm.neural.model import TransformerLM
    from sottovoce.personalize.lm.neural.training import TrainingOptions, train_transformer

    Path(folder).mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options["seed"])
    model = TransformerLM(vocabulary)
    epochs = []
    words = sum(len(line.split()) + 1 for line in lines)
    with progress("Training", unit="words of this epoch", total=words) as update:
        for report in train_transformer(
            model,
            lines,
            valid,
            TrainingOptions(
                epochs=options["epochs"],
                batch_words=options["batch_words"],
                seed=options["seed"],
            ),
            checkpoint=Path(folder, "checkpoint.pt"),
            on_words=update,
        ):
            epochs.append(round(report.valid_perplexity, 3))
            click.echo(f"Epoch {report.epoch}: perplexity {epochs[-1]:g}.", err=True)
    save_transformer(folder, model)
    from sottovoce.personalize.lm.neural.training import perplexity as measured

    final = epochs[-1] if epochs else round(measured(model, valid), 3)
    return {"epochs": epochs, "valid_perplexity": final}


def _lines(path: str, as_is: bool) -> list[str]:
    with open_bytes(path) as stream:
        found = text_lines(stream, Problems(path, strict=True), LINE_LIMIT)
        lines = [line if as_is else normal_text(line) for _, line in found]
    return [line for line in lines if line]
