"""`sottovoce demo`: the life of a private assistant on the built-in corpus, step by step.

Every step runs the verbs that a person would type, and shows them.
"""

import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sottovoce.cli.demo.recipes import recipes
from sottovoce.cli.demo.typing import typed
from sottovoce.cli.shared.statements import print_comparison
from sottovoce.corpora import Utterance, read
from sottovoce.privacy.guarantee import Claim, Guarantee
from sottovoce.report.numbers import claimed_epsilon, true_epsilon

CORPUS, RELEASED, MODELS, DEVICES = "communication.jsonl", "released", "models", "devices"
REPORT = "report.html"
PHONE_USERS = 40
"""Users whose devices are federated; the background model is made of the others' text."""


@click.command()
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path),
    default=Path("sottovoce-demo"), show_default=True, help="Folder for everything it makes.",
)  # fmt: skip
@click.option(
    "--size", type=click.IntRange(min=200), default=3000, show_default=True,
    help="Utterances of the corpus.",
)  # fmt: skip
def demo(output: Path, size: int) -> None:
    """Make a corpus, release it, train on it, audit that, personalise, and report.

    Takes about two minutes on two cores. A second run makes everything anew.

    \b
    Example: sottovoce demo -o somewhere
    """
    console = Console(highlight=False)
    output.mkdir(parents=True, exist_ok=True)
    for made in (RELEASED, MODELS, DEVICES):
        shutil.rmtree(output / made, ignore_errors=True)
        (output / made).mkdir()
    _corpus(output, size, console)
    _recipes(console)
    summary = [
        *_release(output, console),
        *_train(output, size, console),
        *_federate(output, console),
    ]
    _summary(summary, console)
    page = output / REPORT
    typed(console, "report", output / RELEASED, output / MODELS, output / DEVICES, "-o", page)
    console.print(f"The whole story on one page: [bold]{page}[/]")


def _corpus(output: Path, size: int, console: Console) -> None:
    console.print("[bold]1. A corpus of utterances with users, names and numbers[/]")
    path = output / CORPUS
    typed(console, "corpus", "make", "communication", "--size", size, "--seed", 1, "-o", path)
    table = Table(box=None, padding=(0, 2, 0, 3))
    for heading in ("user", "intent", "utterance, with its slots marked"):
        table.add_column(heading, header_style="dim")
    for utterance in islice(read(path), 5):
        table.add_row(utterance.user, utterance.intent, _marked(utterance))
    console.print(table)


def _marked(utterance: Utterance) -> str:
    return " ".join(
        token if slot == "O" else f"[bold cyan]{token}[/]"
        for token, slot in zip(utterance.tokens, utterance.slots, strict=True)
    )


def _recipes(console: Console) -> None:
    console.print("\n[bold]2. What published recipes claim, and what their mechanism gives[/]")
    print_comparison(recipes(), console)


Row = tuple[str, str, Any, Any]
"""Stage, what it was good for, claimed, guaranteed."""


def _release(output: Path, console: Console) -> Iterator[Row]:
    console.print("\n[bold]3. The transcripts, released three ways[/]")
    for strategy, *options in (["typed"], ["word", "--epsilon", 6], ["entity", "--epsilon", 6]):
        path = output / RELEASED / f"{strategy}.jsonl"
        found = typed(
            console, "deid", output / CORPUS, "-o", path, "--strategy", strategy, *options,
            "--detector", "gold", "--labels", "built-in", "--examples", 5,
        )  # fmt: skip
        first = next(iter(read(path)))
        console.print(f"   {first.text}")
        replaced = sum(found["metrics"]["replaced"].values())
        yield f"release: {strategy}", f"{replaced:,} tokens replaced", None, found["guarantee"]


def _train(output: Path, size: int, console: Console) -> Iterator[Row]:
    console.print("\n[bold]4. An intent and slot model, trained three ways, and attacked[/]")
    ways: dict[str, list[Any]] = {
        "sgd": ["--method", "sgd", "--tuning", "frozen", "--learning-rate", 0.05, "--epochs", 30,
                "--batch-size", 100],
        "dp-sgd": ["--method", "dp-sgd", "--epsilon", 3],
        "edp-sgd as printed": ["--method", "edp-sgd", "--as-printed", "--workers", 8,
                               "--noise-multiplier", 0.5, "--tuning", "frozen",
                               "--learning-rate", 0.05, "--epochs", 30,
                               "--batch-size", min(200, size // 2)],
    }  # fmt: skip
    for name, options in ways.items():
        folder = output / MODELS / name.replace(" ", "-")
        run = typed(
            console, "train", output / CORPUS, "--split", "80:1:19", "--public-labels", *options,
            "-o", folder,
        )  # fmt: skip
        audit = typed(console, "audit", "run", folder, "--attack", "loss", "--max-members", 400)
        measured = run["private"]["metrics"]["test"]
        scores = {score: found["value"] for score, found in measured.items()}
        auc = audit["attacks"][0]["auc"]
        console.print(
            f"   semantic error rate {scores['ser']:.1%}, intents {scores['intent_accuracy']:.1%}; "
            f"guessing from the loss who was trained on: AUC {auc:.3f} (0.5 is chance)"
        )
        good_for = f"SER {scores['ser']:.1%}, attack AUC {auc:.2f}"
        yield f"train: {name}", good_for, run["claimed"], run["guarantee"]


def _federate(output: Path, console: Console) -> Iterator[Row]:
    console.print("\n[bold]5. What people say, learnt from their devices in five rounds[/]")
    from sottovoce.cli.demo.recogniser import heard, write_public_text
    from sottovoce.personalize.nbest.formats import write_nbest

    utterances = list(read(output / CORPUS))
    users = sorted({utterance.user for utterance in utterances})
    chosen = set(users[: min(PHONE_USERS, len(users) // 2)])
    folder = output / DEVICES
    write_public_text(folder / "public.txt", (u for u in utterances if u.user not in chosen))
    lists = list(heard([u for u in utterances if u.user in chosen]))
    write_nbest(folder / "nbest.jsonl", lists)
    typed(console, "lm", "train", folder / "public.txt", "--order", 3, "-o", folder / "lm")
    run = typed(
        console, "federate", folder / "nbest.jsonl", "--vocabulary", folder / "lm",
        "--epsilon", 1, "--rounds", 5, "--runner", "in-process", "-o", folder / "marginals",
    )  # fmt: skip
    found = typed(
        console, "rescore", folder / "nbest.jsonl", "--lm", folder / "lm",
        "--marginals", folder / "marginals" / "marginals.json", "-o", folder / "rescored",
    )  # fmt: skip
    heard_as, common, own = (found[key]["wer"] for key in ("first_pass", "background", "adapted"))
    console.print(
        f"   word error rate {heard_as:.1f} % as heard, {common:.1f} % with a language model, "
        f"{own:.1f} % with one that knows you (a made-up recogniser)"
    )
    yield "federate", f"WER {heard_as:.1f} to {own:.1f} %", run["claimed"], run["guarantee"]


def _summary(rows: list[Row], console: Console) -> None:
    console.print("\n[bold]6. All stages[/]")
    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1))
    for heading in ("stage", "what came of it", "claimed", "true epsilon", "protects one"):
        table.add_column(heading, justify="right" if "epsilon" in heading else "left")
    for stage, good_for, claimed, stated in rows:
        guarantee = Guarantee.from_json(stated)
        claim = "" if claimed is None else claimed_epsilon(Claim.from_json(claimed))
        style = "green" if guarantee.holds else "red"
        true = f"[{style}]{true_epsilon(guarantee)}[/]"
        table.add_row(stage, good_for, claim, true, str(guarantee.unit))
    console.print(table)
