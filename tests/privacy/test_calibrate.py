"""Calibration is the inverse of accounting, from below."""

from dataclasses import replace

import pytest

from sottovoce.errors import InvalidInput
from sottovoce.privacy import calibrate
from sottovoce.privacy.facts import Sampling, ScaleSource
from sottovoce.privacy.recipes import Method, TrainingRecipe

SAMPLED = TrainingRecipe(
    method=Method.DP_SGD,
    noise_multiplier=1.0,
    epochs=1,
    steps_per_epoch=200,
    sampling_rate=0.02,
    delta=1e-5,
)
SHUFFLED = replace(SAMPLED, sampling=Sampling.SHUFFLE, sampling_rate=None, epochs=5)


def close_from_below(epsilon: float, target: float) -> bool:
    return target * (1 - calibrate.TOLERANCE) <= epsilon <= target


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("recipe", [SAMPLED, SHUFFLED, replace(SHUFFLED, method=Method.EDP_SGD)])
def test_noise_for_training(recipe: TrainingRecipe, epsilon: float) -> None:
    assert close_from_below(
        calibrate.noise_multiplier(recipe, epsilon).guarantee().epsilon, epsilon
    )


def test_what_no_noise_can_reach_is_refused() -> None:
    with pytest.raises(InvalidInput, match="some amount of noise"):
        calibrate.noise_multiplier(replace(SHUFFLED, alpha_source=ScaleSource.FIRST_BATCH), 3.0)
    with pytest.raises(InvalidInput, match="Expected epsilon > 0"):
        calibrate.noise_multiplier(SAMPLED, 0.0)
