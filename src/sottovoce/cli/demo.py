"""`sottovoce demo`: all parts of the package on the built-in corpus, step by step.

Every step prints and runs the commands that a user would type.
"""

import io
import json
import random
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sottovoce.cli.shared.statements import print_comparison
from sottovoce.corpora import OUTSIDE, Utterance, read
from sottovoce.errors import SottovoceError
from sottovoce.io.atomic import text_output
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.privacy.facts import Noise, Sampling, ScaleSource, SurrogateSource
from sottovoce.privacy.guarantee import (
    Claim,
    Guarantee,
    Statement,
    Unit,
    claimed_epsilon,
    true_epsilon,
)
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

CORPUS, RELEASED, MODELS, DEVICES = "communication.jsonl", "released", "models", "devices"
LEAKY, REPAIRED = "leaky", "repaired"
BOOK, REPORT = "people.book", "report.html"
PHONE_USERS = 40
"""Users whose devices take part; the background model is trained on the other users' text."""


@click.command()
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path),
    default=Path("sottovoce-demo"), show_default=True, help="Output folder.",
)  # fmt: skip
@click.option(
    "--size", type=click.IntRange(min=200), default=6000, show_default=True,
    help="Number of utterances.",
)  # fmt: skip
def demo(output: Path, size: int) -> None:
    """Make a corpus, release it, train on it, audit the models, personalise, and report.

    Takes about two minutes on two cores. A second run replaces all output.

    \b
    Example: sottovoce demo -o somewhere
    """
    console = Console(highlight=False)
    output.mkdir(parents=True, exist_ok=True)
    for made in (RELEASED, MODELS, DEVICES):
        shutil.rmtree(output / made, ignore_errors=True)
        (output / made).mkdir()
    for made in (BOOK, f"{BOOK}.key"):
        (output / made).unlink(missing_ok=True)
    _corpus(output, size, console)
    _recipes(console)
    summary = [
        *_release(output, console),
        *_train(output, size, console),
        *_federate(output, console),
    ]
    _summary(summary, console)
    _book(output, console)
    page = output / REPORT
    _decide(
        console, output / RELEASED / f"{REPAIRED}.jsonl.run.json", output / MODELS / "dp-sgd",
        output / DEVICES, "--reference", output / MODELS / "sgd", "--policy", "research",
        "-o", page,
    )  # fmt: skip
    console.print(f"Report: [bold]{page}[/]")


def _heading(console: Console, what: str, why: str) -> None:
    console.print(f"\n[bold]{what}[/]\n   [dim italic]{why}[/]")


def _corpus(output: Path, size: int, console: Console) -> None:
    _heading(
        console,
        "1. Make a corpus with users, names and numbers",
        "Nobody's words: everything below can be shown around.",
    )
    path = output / CORPUS
    run_command(console, "corpus", "make", "communication", "--size", size, "--seed", 1, "-o", path)
    table = Table(box=None, padding=(0, 2, 0, 3))
    for heading in ("user", "intent", "utterance (slots in bold)"):
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
    _heading(
        console,
        "2. Claimed and true epsilon of published recipes",
        "A guarantee follows from what is executed, not from what a paper says.",
    )
    print_comparison(recipes(), console)


Row = tuple[str, str, Any, Any]
"""Stage, utility, claim, guarantee."""


def _release(output: Path, console: Console) -> Iterator[Row]:
    _heading(
        console,
        "3. Release the transcripts",
        "A detector that was never measured on this text leaks; the policy stops it before you do.",
    )
    _run(console, "book", "init", output / BOOK, "--policy", "research")
    evaluation = output / "evaluation.json"
    run_command(
        console, "deid", "evaluate", output / CORPUS, "--detector", "assistant",
        "--labels", "built-in", "-o", evaluation,
    )  # fmt: skip
    ways: dict[str, tuple[str, list[object]]] = {
        LEAKY: ("fast", []),
        REPAIRED: ("assistant", ["--evaluation", evaluation, "--book", output / BOOK]),
    }
    for name, (detector, options) in ways.items():
        path = output / RELEASED / f"{name}.jsonl"
        found = run_command(
            console, "deid", output / CORPUS, "-o", path, "--strategy", "entity",
            "--detector", detector, "--labels", "built-in", "--examples", 5, *options,
        )  # fmt: skip
        console.print(f"   {next(iter(read(path))).text}")
        run_command(console, "deid", "attack", output / CORPUS, path, "--detector", detector)
        _decide(console, f"{path}.run.json", "-o", output / f"{name}.html")
        replaced = sum(found["metrics"]["replaced"].values())
        yield f"release: {name}", f"{replaced:,} tokens replaced", None, found["guarantee"]


def _book(output: Path, console: Console) -> None:
    _heading(
        console,
        "7. The book",
        "Releases about the same people add up, whoever makes them.",
    )
    for line in _run(console, "book", "show", output / BOOK).splitlines():
        if line.startswith(("Total", "  to one")):
            console.print(f"   {line}", markup=False, soft_wrap=True)


def _decide(console: Console, *arguments: object) -> None:
    """Run `report`, and print its decision with the reasons that matter most."""
    found = run_command(console, "report", *arguments)
    colour = {"green": "green", "amber": "yellow", "red": "red"}[found["level"]]
    console.print(f"   [bold {colour}]{found['decision'].upper()}[/]")
    for reason in found["reasons"][:2]:
        console.print(f"   - {reason}", markup=False)


def _train(output: Path, size: int, console: Console) -> Iterator[Row]:
    _heading(
        console,
        "4. Train an intent and slot model with three methods, and attack it",
        "What privacy at epsilon 3 costs, and what the published shortcut gives for it.",
    )
    ways: dict[str, list[Any]] = {
        "sgd": ["--method", "sgd", "--tuning", "frozen", "--learning-rate", 0.05, "--epochs", 30,
                "--batch-size", 100],
        "dp-sgd": ["--epsilon", 3, "--book", output / BOOK],
        "edp-sgd as printed": ["--method", "edp-sgd", "--as-printed", "--workers", 8,
                               "--noise-multiplier", 0.5, "--tuning", "frozen",
                               "--learning-rate", 0.05, "--epochs", 30,
                               "--batch-size", min(200, size // 2)],
    }  # fmt: skip
    for name, options in ways.items():
        folder = output / MODELS / name.replace(" ", "-")
        run = run_command(
            console, "train", output / CORPUS, "--split", "80:1:19", "--public-labels", *options,
            "-o", folder,
        )  # fmt: skip
        audit = run_command(
            console, "audit", "run", folder, "--attack", "loss", "--max-members", 400
        )
        measured = run["private"]["metrics"]["test"]
        scores = {score: found["value"] for score, found in measured.items()}
        auc = audit["attacks"][0]["auc"]
        console.print(
            f"   semantic error rate {scores['ser']:.1%}, intents {scores['intent_accuracy']:.1%}; "
            f"membership inference from the loss: AUC {auc:.3f} (0.5 is chance)"
        )
        utility = f"SER {scores['ser']:.1%}, attack AUC {auc:.2f}"
        yield f"train: {name}", utility, run["claimed"], run["guarantee"]


def _federate(output: Path, console: Console) -> Iterator[Row]:
    _heading(
        console,
        "5. Federate word counts in five rounds, and personalise",
        "Devices send noisy counts; each adapts to its own user's names.",
    )
    from sottovoce.personalize.nbest.formats import write_nbest

    utterances = list(read(output / CORPUS))
    users = sorted({utterance.user for utterance in utterances})
    chosen = set(users[: min(PHONE_USERS, len(users) // 2)])
    folder = output / DEVICES
    write_public_text(folder / "public.txt", (u for u in utterances if u.user not in chosen))
    lists = list(recognised([u for u in utterances if u.user in chosen]))
    write_nbest(folder / "nbest.jsonl", lists)
    run_command(console, "lm", "train", folder / "public.txt", "--order", 3, "-o", folder / "lm")
    run = run_command(
        console, "federate", folder / "nbest.jsonl", "--vocabulary", folder / "lm",
        "--epsilon", 1, "--rounds", 5, "--runner", "in-process", "--book", output / BOOK,
        "-o", folder / "marginals",
    )  # fmt: skip
    found = run_command(
        console, "rescore", folder / "nbest.jsonl", "--lm", folder / "lm",
        "--marginals", folder / "marginals" / "marginals.json", "-o", folder / "rescored",
    )  # fmt: skip
    rates = (found[key]["wer"] for key in ("first_pass", "background", "adapted"))
    first_pass, background, adapted = rates
    console.print(
        f"   word error rate: first pass {first_pass:.1f} %, language model {background:.1f} %, "
        f"personalised {adapted:.1f} % (synthetic recogniser)"
    )
    yield "federate", f"WER {first_pass:.1f} to {adapted:.1f} %", run["claimed"], run["guarantee"]


def _summary(rows: list[Row], console: Console) -> None:
    _heading(console, "6. Summary", "What was claimed beside what is true, and what it was worth.")
    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1))
    for heading in ("stage", "utility", "claimed", "true epsilon", "protects one"):
        table.add_column(heading, justify="right" if "epsilon" in heading else "left")
    for stage, utility, claimed, stated in rows:
        guarantee = Guarantee.from_json(stated)
        claim = "" if claimed is None else claimed_epsilon(Claim.from_json(claimed))
        style = "green" if guarantee.holds else "red"
        true = f"[{style}]{true_epsilon(guarantee)}[/]"
        table.add_row(stage, utility, claim, true, str(guarantee.unit))
    console.print(table)


def run_command(console: Console, *arguments: object) -> dict[str, Any]:
    """Print and run `sottovoce arguments --json`; its output is returned, not printed."""
    found: dict[str, Any] = json.loads(_run(console, *arguments, "--json") or "{}")
    return found


def _run(console: Console, *arguments: object) -> str:
    """Print a command without `--json`, run it in this process, and return what it prints."""
    from sottovoce.cli.main import sottovoce

    words = [str(each) for each in arguments]
    shown = " ".join(shlex.quote(word) for word in words if word != "--json")
    console.print(f"   [dim]$ sottovoce {shown}[/]", soft_wrap=True)
    output = io.StringIO()
    try:
        with redirect_stdout(output), redirect_stderr(io.StringIO()):
            sottovoce.main(words, standalone_mode=False)
    except SystemExit as end:
        if end.code and not (words[0] == "report" and end.code in (1, 3)):  # its decisions
            raise SottovoceError(
                f"The command `sottovoce {words[0]}` failed with exit code {end.code}."
            ) from end
    return output.getvalue()


def recipes() -> Iterator[tuple[str, Statement]]:
    """Claimed and true epsilon of the recipes of the three papers, as printed and corrected."""
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


HYPOTHESES = 5
ERROR_RATE = 0.35
"""Probability that the first hypothesis is wrong."""


def recognised(utterances: Sequence[Utterance], seed: int = 0) -> Iterator[NBest]:
    """N-best lists of the utterances, numbered per user.

    A synthetic recogniser, which confuses words of the same slot. Real recognisers make errors on
    names, which personalisation corrects; `examples/` has a real one.
    """
    draws = random.Random(seed)
    words: dict[str, list[str]] = {}
    for utterance in utterances:
        for token, slot in zip(utterance.tokens, utterance.slots, strict=True):
            words.setdefault(slot, []).append(token)
    places: dict[str, int] = {}
    for number, utterance in enumerate(utterances):
        order = places[utterance.user] = places.get(utterance.user, -1) + 1
        others = [_confused(utterance, words, draws) for _ in range(HYPOTHESES)]
        texts = list(dict.fromkeys([utterance.text, *others]))[:HYPOTHESES]
        if len(texts) > 1 and draws.random() < ERROR_RATE:
            texts[0], texts[1] = texts[1], texts[0]
        yield NBest(
            f"demo-{number}",
            tuple(Hypothesis(text, am=-0.4 * rank) for rank, text in enumerate(texts)),
            utterance.text,
            utterance.user,
            order,
        )


def write_public_text(path: Path, utterances: Iterable[Utterance]) -> None:
    """Write other users' text, which serves as public text here."""
    with text_output(path) as stream:
        for utterance in utterances:
            stream.write(" ".join(utterance.tokens) + "\n")


def _confused(utterance: Utterance, words: dict[str, list[str]], draws: random.Random) -> str:
    """Replace one slot word (any word if there are no slots) by another of the same kind."""
    named = [place for place, slot in enumerate(utterance.slots) if slot != OUTSIDE]
    place = draws.choice(named or range(len(utterance.tokens)))
    tokens = list(utterance.tokens)
    tokens[place] = draws.choice(words[utterance.slots[place]])
    return " ".join(tokens)
