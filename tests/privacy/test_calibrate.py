"""Calibration is the inverse of accounting, from below."""

from dataclasses import replace

import pytest

from sottovoce.errors import InvalidInput
from sottovoce.privacy import calibrate
from sottovoce.privacy.facts import Noise, Sampling, ScaleSource
from sottovoce.privacy.guarantee import Unit
from sottovoce.privacy.recipes import (
    Cap,
    DeidRecipe,
    FederateRecipe,
    Method,
    Strategy,
    TrainingRecipe,
)

SAMPLED = TrainingRecipe(
    method=Method.DP_SGD,
    noise_multiplier=1.0,
    epochs=1,
    steps_per_epoch=200,
    sampling_rate=0.02,
    delta=1e-5,
)
SHUFFLED = replace(SAMPLED, sampling=Sampling.SHUFFLE, sampling_rate=None, epochs=5)
COUNTS = FederateRecipe(
    noise=Noise.LAPLACE, scale=1.0, max_words=15, nbest=20, sigma=1.0, rounds=10
)


def close_from_below(epsilon: float, target: float) -> bool:
    return target * (1 - calibrate.TOLERANCE) <= epsilon <= target


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("recipe", [SAMPLED, SHUFFLED, replace(SHUFFLED, method=Method.EDP_SGD)])
def test_noise_for_training(recipe: TrainingRecipe, epsilon: float) -> None:
    assert close_from_below(
        calibrate.noise_multiplier(recipe, epsilon).guarantee().epsilon, epsilon
    )


@pytest.mark.parametrize(
    "recipe",
    [
        COUNTS,
        replace(COUNTS, noise=Noise.GAUSSIAN, delta=1e-6),
        replace(COUNTS, unit=Unit.USER, mass_cap=100.0, cap=Cap.PER_ROUND),
    ],
)
def test_noise_for_counts(recipe: FederateRecipe) -> None:
    assert close_from_below(calibrate.count_noise(recipe, 2.0).guarantee().epsilon, 2.0)


@pytest.mark.parametrize(("tokens", "delta"), [(1, None), (10, None), (10, 1e-6)])
def test_replacement_probability(tokens: int, delta: float | None) -> None:
    recipe = DeidRecipe(strategy=Strategy.WORD, p=1.0, pi_min=0.01, tokens=tokens, delta=delta)
    found = calibrate.replacement(recipe, 3.0)
    assert close_from_below(found.guarantee().epsilon, 3.0)
    assert replace(found, p=found.p * 0.999).guarantee().epsilon > found.guarantee().epsilon


def test_steps_are_the_most_that_fit() -> None:
    count = calibrate.steps(SAMPLED, 1.0)
    assert replace(SAMPLED, steps_per_epoch=count).guarantee().epsilon <= 1.0
    assert replace(SAMPLED, steps_per_epoch=count + 1).guarantee().epsilon > 1.0
    assert calibrate.steps(replace(SAMPLED, noise_multiplier=0.3), 0.01) == 0


def test_what_no_noise_can_reach_is_refused() -> None:
    with pytest.raises(InvalidInput, match="some amount of noise"):
        calibrate.noise_multiplier(replace(SHUFFLED, alpha_source=ScaleSource.FIRST_BATCH), 3.0)
    with pytest.raises(InvalidInput, match="Expected epsilon > 0"):
        calibrate.noise_multiplier(SAMPLED, 0.0)
    missed = DeidRecipe(strategy=Strategy.WORD, p=1.0, pi_min=0.001, recall=0.9)
    with pytest.raises(InvalidInput, match="replacing every private token"):
        calibrate.replacement(missed, 1.0)


def test_steps_of_shuffled_batches_cost_nothing_more_within_an_epoch() -> None:
    with pytest.raises(InvalidInput, match="free of charge"):
        calibrate.steps(replace(SHUFFLED, noise_multiplier=100.0), 1.0)
