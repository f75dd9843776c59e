"""`sottovoce demo`: the life of a private assistant on the built-in corpus, step by step."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sottovoce.cli.statements import claimed_epsilon, print_comparison, true_epsilon
from sottovoce.corpora import Tally, Utterance, read
from sottovoce.corpora.synthetic import DOMAINS, schema, write_jsonl
from sottovoce.privacy.facts import Noise, Sampling, ScaleSource, SurrogateSource
from sottovoce.privacy.guarantee import Statement, Unit
from sottovoce.privacy.recipes import (
    Decay,
    DeidRecipe,
    FederateRecipe,
    Method,
    NoiseShape,
    NoiseSplit,
    Release,
    Strategy,
    TrainingRecipe,
)


@click.command()
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path),
    default=Path("sottovoce-demo"), show_default=True, help="Folder for everything it makes.",
)  # fmt: skip
@click.option("--size", type=click.IntRange(min=100), default=5000, show_default=True)
def demo(output: Path, size: int) -> None:
    """Show what this is about, on a corpus that is made on the spot.

    \b
    Example:
      sottovoce demo -o somewhere
    """
    console = Console(highlight=False)
    output.mkdir(parents=True, exist_ok=True)
    console.print("[bold]1. A corpus of utterances with users, names, numbers and medicines[/]")
    for domain in DOMAINS:
        path = output / f"{domain}.jsonl"
        write_jsonl(path, domain, size=size)
        _describe(path, domain, console)
    _show_utterances(output / "communication.jsonl", console)
    console.print()
    console.print("[bold]2. What published recipes claim, and what their mechanism gives[/]")
    print_comparison(recipes(), console)
    console.print(
        "Each row is one command of [bold]sottovoce epsilon[/], which also prints what a "
        "guarantee rests on."
    )
    console.print()
    console.print("[bold]3. An intent model of the communication corpus, trained three ways[/]")
    _train(output / "communication.jsonl", console)
    console.print(f"Everything made is in {output}.")


def _train(path: Path, console: Console) -> None:
    from sottovoce.cli.demo_training import train_three_ways  # loads torch

    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1))
    for heading in ("method", "accuracy", "attack AUC", "claimed", "true epsilon"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for trained in train_three_ways(list(read(path)), schema("communication").intents):
        claimed = "nothing" if trained.claimed is None else claimed_epsilon(trained.claimed)
        true = true_epsilon(trained.guarantee)
        table.add_row(trained.name, f"{trained.accuracy:.1%}", f"{trained.auc:.3f}", claimed, true)
    console.print(table)
    console.print(
        "Accuracy is on users that were not trained on. The AUC is that of guessing from the loss "
        "who was trained on (0.5 is chance): it can show a leak, and never that there is none."
    )


def _describe(path: Path, domain: str, console: Console) -> None:
    tally = Tally()
    for utterance in read(path):
        tally.add(utterance)
    found = tally.statistics()
    console.print(
        f"   {domain:13} {found.utterances:,} utterances, {found.users:,} users, "
        f"{len(found.intents)} intents, {len(found.slots)} slot types"
    )


def _show_utterances(path: Path, console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 3))
    for heading in ("user", "intent", "utterance, with its slots marked"):
        table.add_column(heading, header_style="dim")
    for utterance in islice(read(path), 6):
        table.add_row(utterance.user, utterance.intent, _marked(utterance))
    console.print(table)


def _marked(utterance: Utterance) -> str:
    return " ".join(
        token if slot == "O" else f"[bold cyan]{token}[/]"
        for token, slot in zip(utterance.tokens, utterance.slots, strict=True)
    )


def recipes() -> Iterator[tuple[str, Statement]]:
    """The three papers' recipes, as printed and as they should be."""
    edpsgd = TrainingRecipe(
        method=Method.EDP_SGD,
        noise_multiplier=1.0,
        decay=Decay.LINEAR,
        tau=0.1,
        epochs=10,
        steps_per_epoch=140,
        sampling=Sampling.POISSON,
        sampling_rate=0.007,
        delta=5e-4,
        workers=8,
    )
    as_printed = replace(
        edpsgd,
        noise_split=NoiseSplit.PAPER,
        noise_shape=NoiseShape.ISOTROPIC,
        alpha_source=ScaleSource.FIRST_BATCH,
    )
    dpsgd = replace(edpsgd, method=Method.DP_SGD, workers=1)
    yield "eDP-SGD as printed: 8 workers, z = 1", as_printed.statement()
    yield (
        "  the same with scales that are not private",
        replace(as_printed, alpha_source=ScaleSource.ONES).statement(),
    )
    yield "  the same with the exact noise split", edpsgd.statement()
    yield "DP-SGD with the same noise", dpsgd.statement()
    yield (
        "redact, 90 % of the names found",
        DeidRecipe(strategy=Strategy.REDACT, p=1.0, recall=0.9).statement(),
    )
    yield (
        "word by word, surrogates from the corpus",
        DeidRecipe(
            strategy=Strategy.WORD, p=1.0, pi_min=0.001, pi_source=SurrogateSource.SAME_CORPUS
        ).statement(),
    )
    yield (
        "word by word, public list, p = 0.99",
        DeidRecipe(strategy=Strategy.WORD, p=0.99, pi_min=0.001).statement(),
    )
    counts = FederateRecipe(
        noise=Noise.LAPLACE,
        scale=2.0,
        max_words=15,
        nbest=20,
        sigma=1.0,
        rounds=10,
        release=Release.CUMULATIVE,
        unit=Unit.UTTERANCE,
    )
    yield "federated counts, epsilon 0.5, 10 rounds", counts.statement()
    yield (
        "  the same, released as increments",
        replace(counts, release=Release.INCREMENTS).statement(),
    )
