"""`sottovoce lm tune`, `lm sample` and `lm convert`: private adapters of language models."""

import shutil
import time
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.shared.console import json_option, print_json, progress
from sottovoce.corpora import read
from sottovoce.errors import InvalidInput
from sottovoce.io.run import Run, header


@click.command()
@click.argument("data")
@click.option("--lm", "base", required=True, help="Folder of a causal Hugging Face model.")
@click.option("-o", "--output", "folder", required=True, help="Folder for the adapter.")
@click.option("--epsilon", type=float, required=True, help="Largest epsilon.")
@click.option("--delta", type=float, required=True, help="Delta; below 0.1 / population.")
@click.option("--population", type=int, required=True,
              help="Public, declared number of texts or users; need not be exact.")  # fmt: skip
@click.option("--unit", type=click.Choice(["example", "user"]), default="example",
              show_default=True, help="What is protected.")  # fmt: skip
@click.option("--examples-per-user", type=int, help="Texts of a user per step, at most.")
@click.option("--epochs", type=int, default=3, show_default=True, help="Passes over the data.")
@click.option("--batch-size", type=int, default=64, show_default=True,
              help="Expected texts or users per step.")  # fmt: skip
@click.option("--learning-rate", type=float, default=1e-3, show_default=True, help="Of Adam.")
@click.option("--clip-norm", type=float, default=0.1, show_default=True, help="Clip norm.")
@click.option("--rank", type=int, default=8, show_default=True, help="Rank of LoRA.")
@click.option("--longest", type=int, default=128, show_default=True, help="Tokens of a text.")
@click.option("--seed", type=int, help="For tests: the guarantee then depends on its secrecy.")
@json_option
def tune(data: str, base: str, folder: str, as_json: bool, **options: Any) -> None:
    """Fine-tune a language model on private DATA by LoRA, with a guarantee.

    DATA is a corpus in any format, or one text per line. Writes a PEFT adapter, for `rescore --lm`,
    `lm score` and `lm sample`, and a run.json with the guarantee.

    \b
    Example: sottovoce lm tune calls.jsonl --lm model/ -o adapter/ --epsilon 8 --delta 1e-6 --population 60000
    """  # noqa: E501 (one line, to copy)
    from sottovoce.personalize.lm.neural.tuning import TuningOptions
    from sottovoce.personalize.lm.neural.tuning import tune as run

    started = time.monotonic()
    run_folder = Run(folder)
    run_folder.check(resume=False)
    utterances = list(read(data))
    if not utterances:
        raise InvalidInput(f"Expected texts in {data}, got none.")
    settings = TuningOptions(**options)
    steps = settings.plan().steps
    with progress("Tuning", unit="steps", total=steps) as update:
        tuned = run(
            base,
            [each.text for each in utterances],
            settings,
            folder,
            users=[each.user for each in utterances],
            on_step=lambda _: update(1),
        )
    words = Path(base, "vocabulary.json")
    if words.is_file():
        shutil.copyfile(words, Path(folder, words.name))
    seconds = round(time.monotonic() - started, 1)
    run_folder.write_run(
        {
            **header("lm tune"),
            "configuration": {"lm": Path(base).name, **options},
            "seed": options["seed"],
            "ledger": tuned.ledger.to_json(),
            "guarantee": tuned.guarantee.to_json(),
            "data": {"name": Path(data).name, "train": len(utterances)},
            "timings": {"seconds": seconds},
        }
    )
    if as_json:
        print_json({"folder": folder, "steps": steps, "guarantee": tuned.guarantee.to_json()})
    else:
        click.echo(f"Saved the adapter in {folder}. {tuned.guarantee}")


@click.command()
@click.argument("model")
@click.option("--count", type=int, default=5, show_default=True, help="Texts to draw.")
@click.option("--prompt", default="", help="How every text begins.")
@click.option("--longest", type=int, default=40, show_default=True, help="Tokens of a text.")
@click.option("--seed", type=int, help="Seed of the draws.")
@json_option
def sample(
    model: str, count: int, prompt: str, longest: int, seed: int | None, as_json: bool
) -> None:
    """Draw texts from MODEL, a causal Hugging Face model or an adapter of `lm tune`.

    \b
    Example: sottovoce lm sample adapter/ --count 10 --prompt "call"
    """
    from sottovoce.personalize.lm.neural.tuning import sample as draw

    texts = draw(model, count, prompt=prompt, longest=longest, seed=seed)
    if as_json:
        print_json(texts)
    else:
        for text in texts:
            click.echo(text)


@click.command()
@click.argument("model")
@click.option("-o", "--output", "folder", required=True, help="Folder for the model.")
@json_option
def convert(model: str, folder: str, as_json: bool) -> None:
    """Convert MODEL, a GGUF file, to a Hugging Face folder with safetensors.

    Needs the packages gguf and accelerate. Quantised weights become float32.

    \b
    Example: sottovoce lm convert SmolLM2-135M-Instruct.Q4_1.gguf -o smollm2/
    """
    from sottovoce.personalize.lm.neural.tuning import convert_gguf

    weights = convert_gguf(model, folder)
    if as_json:
        print_json({"folder": folder, "weights": weights})
    else:
        click.echo(f"Converted {weights:,} weights into {folder}.")
