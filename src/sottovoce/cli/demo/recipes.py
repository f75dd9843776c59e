"""Claimed and true epsilon of the papers' recipes, as printed and corrected."""

from collections.abc import Iterator
from dataclasses import replace

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


def recipes() -> Iterator[tuple[str, Statement]]:
    """The recipes of the three papers, as printed and corrected."""
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
