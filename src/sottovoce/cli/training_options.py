"""The options of a training run, shared by `train` and `tune`, and the settings they make.

Choices are written out here: the modules that define them load torch, and `--help` must not.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from sottovoce.nlu.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])

BY_RECIPE = " [default: by the recipe]"


def settings_options(command: Command) -> Command:
    """Everything that `settings_from` understands."""
    options = [
        click.option(
            "--model", type=click.Choice(["clc", "bert"]), default="bert", show_default=True
        ),
        click.option(
            "--encoder",
            default="minilm",
            show_default=True,
            help="For bert: minilm, paper (4 layers x 312, untrained), or a folder.",
        ),
        click.option(
            "--tuning",
            metavar="HOW",
            help="What of the encoder is trained: frozen, last-K, bias, lora, lora-RANK, full"
            + BY_RECIPE
            + ".",
        ),
        click.option(
            "--vectors", type=click.Path(exists=True), help="For clc: public word vectors."
        ),
        click.option(
            "--vocabulary",
            default="hashed",
            show_default=True,
            help="For clc without vectors: hashed, dp, private (not covered), or a public list.",
        ),
        click.option(
            "--vocabulary-epsilon",
            type=float,
            help="What a dp vocabulary may cost [default: a tenth of epsilon].",
        ),
        click.option(
            "--method",
            type=click.Choice(["sgd", "dp-sgd", "textbook", "edp-sgd"]),
            default="sgd",
            show_default=True,
        ),
        click.option("--as-printed", is_flag=True, help="edp-sgd to the letter of the paper."),
        click.option("--epsilon", type=float, help="Find the noise for this epsilon."),
        click.option("--noise-multiplier", type=float, help="Noise over clip norm, z."),
        click.option("--delta", type=float, help="[default: population to the power of -1.1]"),
        click.option(
            "--unit",
            type=click.Choice(["example", "user"]),
            default="example",
            show_default=True,
            help="Who is protected.",
        ),
        click.option("--population", type=int, help="Declared number of units [default: counted]."),
        click.option(
            "--decay",
            type=click.Choice(["none", "linear", "exponential"]),
            default="none",
            show_default=True,
            help="How the noise decays by epoch.",
        ),
        click.option("--tau", type=float, default=0.1, show_default=True, help="Its strength."),
        click.option("--workers", type=int, default=1, show_default=True),
        click.option(
            "--batch-size", type=int, help="Units a step, on average" + BY_RECIPE + "."
        ),
        click.option("--epochs", type=int, help="Passes over the data" + BY_RECIPE + "."),
        click.option("--clip-norm", type=float, help="C" + BY_RECIPE + "."),
        click.option("--clipping", type=click.Choice(["flat", "automatic", "per-layer"])),
        click.option("--learning-rate", type=float, help="Of the first step" + BY_RECIPE + "."),
        click.option("--encoder-rate", type=float, help="Factor for the encoder's own weights."),
        click.option("--optimizer", type=click.Choice(["adam", "sgd"])),
        click.option("--schedule", type=click.Choice(["constant", "linear", "cosine"])),
        click.option("--averaged", type=float, help="Last part of the steps to average."),
        click.option(
            "--virtual-batch",
            type=int,
            default=256,
            show_default=True,
            help="Examples that go through the model at a time.",
        ),
        click.option("--seed", type=int, help="For tests: no guarantee for who knows the seed."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def settings_from(options: dict[str, Any]) -> "Settings":
    """Settings of the options, each checked."""
    from sottovoce.nlu.settings import Settings

    return Settings.from_json(options)
