"""`sottovoce epsilon`: claimed and true epsilon of a recipe, before anything is run."""

from enum import StrEnum
from typing import Any

import click

from sottovoce.cli.shared.console import json_option, print_json
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import Noise, Sampling, ScaleSource, SurrogateSource
from sottovoce.privacy.guarantee import Relation, Statement, Unit
from sottovoce.privacy.recipes import (
    PAPER_STRATEGIES,
    PRIVATE_METHODS,
    Cap,
    Decay,
    DeidRecipe,
    FederateRecipe,
    Kernel,
    Method,
    NoiseShape,
    NoiseSplit,
    Release,
    Strategy,
    TrainingRecipe,
)

# Fields of the guarantee in `--json`. Recipes are always about plain differential privacy and list
# gaps among their assumptions, so the other fields would be empty.
_GUARANTEE_FIELDS = (
    "epsilon", "delta", "unit", "relation", "accountant", "verdict", "reasons", "assumptions",
)  # fmt: skip


def _choice(*options: StrEnum) -> click.Choice[str]:
    return click.Choice([option.value for option in options])


@click.group()
def epsilon() -> None:
    """Claimed and true epsilon of a recipe, before anything is run."""


@epsilon.command()
@click.option(
    "--method",
    type=_choice(*PRIVATE_METHODS),
    default="dp-sgd",
    show_default=True,
    help="Training method.",
)
@click.option(
    "--noise-multiplier",
    type=float,
    required=True,
    help="Noise standard deviation over clip norm, z.",
)
@click.option(
    "--decay",
    type=_choice(*Decay),
    default="none",
    show_default=True,
    help="How the noise decays from epoch to epoch.",
)
@click.option("--tau", type=float, default=0.0, show_default=True, help="Strength of the decay.")
@click.option("--epochs", type=int, required=True, help="Passes over the data.")
@click.option("--steps-per-epoch", type=int, default=1, show_default=True, help="Steps per epoch.")
@click.option(
    "--sampling", type=_choice(Sampling.POISSON, Sampling.SHUFFLE), default="poisson",
    show_default=True, help="How batches are drawn.",
)  # fmt: skip
@click.option("--sampling-rate", type=float, help="Poisson sampling rate, q.")
@click.option("--delta", type=float, required=True, help="Delta of the guarantee.")
@click.option(
    "--workers", type=int, default=1, show_default=True, help="Workers that share the noise."
)
@click.option(
    "--noise-split", type=_choice(*NoiseSplit), default="exact", show_default=True,
    help="How workers share the noise; paper: y/N each, as in the paper.",
)  # fmt: skip
@click.option("--alpha", default="1", show_default=True, help="Layer scales, such as 1,2,0.5.")
@click.option(
    "--noise-shape", type=_choice(*NoiseShape), default="scaled", show_default=True,
    help="Noise scaled with alpha, or equal in every layer, as in the paper.",
)  # fmt: skip
@click.option(
    "--alpha-source", default="ones", show_default=True,
    type=_choice(ScaleSource.ONES, ScaleSource.PUBLIC, ScaleSource.DP, ScaleSource.FIRST_BATCH),
    help="Source of alpha; first-batch: from a private gradient, as in the paper.",
)  # fmt: skip
@click.option(
    "--alpha-noise-multiplier", type=float, default=10.0, show_default=True,
    help="Noise multiplier of the alpha release, with --alpha-source dp.",
)  # fmt: skip
@click.option(
    "--unit",
    type=_choice(Unit.EXAMPLE, Unit.USER),
    default="example",
    show_default=True,
    help="Unit of privacy.",
)
@click.option(
    "--relation", type=_choice(*Relation),
    help="Neighbouring relation [default: add-or-remove with poisson, replace-one with shuffle].",
)  # fmt: skip
@json_option
def training(*, as_json: bool, alpha: str, **options: Any) -> None:
    """Claimed and true epsilon of DP-SGD and eDP-SGD.

    \b
    sottovoce epsilon training --method edp-sgd --noise-multiplier 1 --decay linear --tau 0.1 \\
      --epochs 10 --steps-per-epoch 140 --sampling-rate 0.007 --delta 5e-4 \\
      --workers 8 --noise-split paper
    """
    recipe = TrainingRecipe(
        method=Method(options["method"]),
        noise_multiplier=options["noise_multiplier"],
        decay=Decay(options["decay"]),
        tau=options["tau"],
        epochs=options["epochs"],
        steps_per_epoch=options["steps_per_epoch"],
        sampling=Sampling(options["sampling"]),
        sampling_rate=options["sampling_rate"],
        delta=options["delta"],
        workers=options["workers"],
        noise_split=NoiseSplit(options["noise_split"]),
        alpha=_numbers("--alpha", alpha),
        noise_shape=NoiseShape(options["noise_shape"]),
        alpha_source=ScaleSource(options["alpha_source"]),
        alpha_noise_multiplier=options["alpha_noise_multiplier"],
        unit=Unit(options["unit"]),
        relation=Relation(options["relation"]) if options["relation"] else None,
    )
    _show(recipe.statement(), as_json=as_json)


@epsilon.command()
@click.option(
    "--strategy",
    type=_choice(*PAPER_STRATEGIES),
    required=True,
    help="How private values are replaced.",
)
@click.option("--p", type=float, required=True, help="Probability that a token is replaced.")
@click.option("--pi-min", type=float, help="Smallest surrogate probability of any value.")
@click.option(
    "--tokens", type=int, default=1, show_default=True, help="Private tokens per utterance."
)
@click.option("--delta", type=float, help="Delta of the guarantee [default: 0, pure epsilon].")
@click.option(
    "--recall", type=float, default=1.0, show_default=True, help="Recall of the detector."
)
@click.option(
    "--pi-source", type=_choice(*SurrogateSource), default="public", show_default=True,
    help="Source of the surrogate frequencies.",
)  # fmt: skip
@click.option(
    "--histogram-epsilon", type=float, default=1.0, show_default=True,
    help="Epsilon of the frequencies, with --pi-source dp-histogram.",
)  # fmt: skip
@json_option
def deid(*, as_json: bool, **options: Any) -> None:
    """Claimed and true epsilon of replacing private tokens.

    \b
    sottovoce epsilon deid --strategy word --p 0.99 --pi-min 0.01 --tokens 10 --delta 1e-6
    """
    recipe = DeidRecipe(
        strategy=Strategy(options["strategy"]),
        p=options["p"],
        pi_min=options["pi_min"],
        tokens=options["tokens"],
        delta=options["delta"],
        recall=options["recall"],
        pi_source=SurrogateSource(options["pi_source"]),
        histogram_epsilon=options["histogram_epsilon"],
    )
    _show(recipe.statement(), as_json=as_json)


@epsilon.command()
@click.option(
    "--mechanism",
    type=_choice(*Noise),
    default="laplace",
    show_default=True,
    help="Noise distribution.",
)
@click.option(
    "--epsilon-per-count", type=float, help="Sets the Laplace scale to 1/E, as in the paper."
)
@click.option("--scale", type=float, help="Scale (Laplace) or standard deviation (Gaussian).")
@click.option("--max-words", type=int, required=True, help="Words counted per hypothesis.")
@click.option("--nbest", type=int, required=True, help="Hypotheses counted per utterance.")
@click.option("--sigma", type=float, required=True, help="Width of the rank kernel.")
@click.option(
    "--kernel",
    type=_choice(*Kernel),
    default="raw",
    show_default=True,
    help="Rank weights: raw, or normalised to sum to 1.",
)
@click.option("--rounds", type=int, default=1, show_default=True, help="Number of releases.")
@click.option(
    "--release",
    type=_choice(*Release),
    default="increments",
    show_default=True,
    help="Release new counts only, or all counts so far, as in the paper.",
)
@click.option(
    "--unit",
    type=_choice(Unit.UTTERANCE, Unit.USER),
    default="utterance",
    show_default=True,
    help="Unit of privacy.",
)
@click.option("--mass-cap", type=float, help="Maximum total count of a user, with --unit user.")
@click.option("--word-cap", type=float, help="Maximum count of a user for one word.")
@click.option(
    "--cap",
    type=_choice(*Cap),
    default="lifetime",
    show_default=True,
    help="Apply caps over all rounds, or to each round.",
)
@click.option("--delta", type=float, default=0.0, show_default=True, help="Delta of the guarantee.")
@json_option
def federate(
    *, as_json: bool, epsilon_per_count: float | None, scale: float | None, **options: Any
) -> None:
    """Claimed and true epsilon of federated word counts.

    \b
    sottovoce epsilon federate --epsilon-per-count 0.5 --max-words 15 --nbest 20 --sigma 1 \\
      --rounds 10 --release cumulative
    """
    noise = Noise(options["mechanism"])
    recipe = FederateRecipe(
        noise=noise,
        scale=_scale(noise, epsilon_per_count, scale),
        max_words=options["max_words"],
        nbest=options["nbest"],
        sigma=options["sigma"],
        kernel=Kernel(options["kernel"]),
        rounds=options["rounds"],
        release=Release(options["release"]),
        unit=Unit(options["unit"]),
        mass_cap=options["mass_cap"],
        word_cap=options["word_cap"],
        cap=Cap(options["cap"]),
        delta=options["delta"],
    )
    _show(recipe.statement(), as_json=as_json)


def _scale(noise: Noise, epsilon_per_count: float | None, scale: float | None) -> float:
    if (epsilon_per_count is None) == (scale is None):
        raise InvalidInput("Expected exactly one of --epsilon-per-count and --scale.")
    if scale is not None:
        return scale
    assert epsilon_per_count is not None
    if noise not in (Noise.LAPLACE, Noise.DISCRETE_LAPLACE):
        raise InvalidInput(
            f"Expected --scale with {noise} noise: --epsilon-per-count sets a Laplace scale."
        )
    if not epsilon_per_count > 0:
        raise InvalidInput(f"Expected --epsilon-per-count > 0, got {epsilon_per_count:g}.")
    return 1 / epsilon_per_count


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as problem:
        raise InvalidInput(
            f"Expected numbers separated by commas in {option}, got {text!r}."
        ) from problem


def _show(statement: Statement, *, as_json: bool) -> None:
    if as_json:
        guarantee = statement.guarantee.to_json()
        print_json(
            {
                "claimed": statement.claimed.to_json(),
                "guarantee": {name: guarantee[name] for name in _GUARANTEE_FIELDS},
                "effective_noise_multiplier": statement.effective_noise_multiplier,
            }
        )
        return
    from sottovoce.cli.shared.statements import print_statement

    print_statement(statement)
