"""What training recipes claim and guarantee."""

import math
from dataclasses import replace

import pytest

from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import Sampling, ScaleSource
from sottovoce.privacy.guarantee import Relation, Unit, Verdict
from sottovoce.privacy.recipes import (
    PRIVATE_METHODS,
    Decay,
    Method,
    NoiseShape,
    NoiseSplit,
    TrainingRecipe,
)

ADVERTISED = TrainingRecipe(
    method=Method.EDP_SGD,
    noise_multiplier=1.0,
    decay=Decay.LINEAR,
    tau=0.1,
    epochs=10,
    steps_per_epoch=140,
    sampling_rate=0.007,
    delta=5e-4,
    workers=8,
)
SHUFFLED = replace(ADVERTISED, sampling=Sampling.SHUFFLE)


@pytest.mark.parametrize(
    ("changes", "epsilon"),
    [
        ({"method": Method.DP_SGD}, 3.9331),
        ({}, 41.177409),
        ({"noise_split": NoiseSplit.PAPER}, 698.3),
    ],
)
def test_the_same_advertised_run(changes: dict[str, object], epsilon: float) -> None:
    found = replace(ADVERTISED, **changes).guarantee()  # type: ignore[arg-type]
    assert epsilon * (1 - 1e-4) <= found.epsilon <= epsilon * (1 + 1e-3)


@pytest.mark.parametrize(
    ("changes", "epsilon"),
    [
        # kappa 2 is inherent in replace-one; alpha 3 with isotropic noise triples it
        ({"noise_split": NoiseSplit.EXACT}, 73.6073533670112),
        (
            {
                "noise_split": NoiseSplit.PAPER,
                "alpha": (0.2, 1.0, 3.0),
                "noise_shape": NoiseShape.ISOTROPIC,
            },
            3406.44840701964,
        ),
    ],
)
def test_shuffled_batches_as_one_gaussian_an_epoch(
    changes: dict[str, object], epsilon: float
) -> None:
    found = replace(SHUFFLED, **changes).guarantee()  # type: ignore[arg-type]
    assert found.relation is Relation.REPLACE_ONE
    assert found.accountant == "analytic Gaussian"
    assert found.epsilon == pytest.approx(epsilon, rel=1e-10)


def test_the_claim_is_the_papers_whatever_ran() -> None:
    rho = sum((1 + 0.1 * t) ** 2 / 2 for t in range(10))
    claimed = rho + 2 * math.sqrt(rho * math.log(1 / 5e-4))
    for recipe in (ADVERTISED, SHUFFLED, replace(ADVERTISED, noise_split=NoiseSplit.PAPER)):
        assert recipe.statement().claimed.epsilon == pytest.approx(claimed)


@pytest.mark.parametrize(
    ("changes", "effective"),
    [
        ({"method": Method.DP_SGD}, 1.0),
        ({"method": Method.DP_SGD, "noise_split": NoiseSplit.PAPER}, 0.353553390593274),
        ({}, 0.5),
        (
            {
                "noise_split": NoiseSplit.PAPER,
                "alpha": (0.2, 1.0, 3.0),
                "noise_shape": NoiseShape.ISOTROPIC,
            },
            0.058925565098879,
        ),
        ({"alpha": (0.2, 1.0, 3.0), "noise_shape": NoiseShape.SCALED}, 0.5),
    ],
)
def test_effective_noise_multiplier(changes: dict[str, object], effective: float) -> None:
    statement = replace(ADVERTISED, epochs=1, **changes).statement()  # type: ignore[arg-type]
    assert statement.effective_noise_multiplier == pytest.approx(effective, rel=1e-12)


def test_scales_from_a_private_gradient_have_no_guarantee() -> None:
    found = replace(ADVERTISED, alpha_source=ScaleSource.FIRST_BATCH).guarantee()
    assert found.verdict is Verdict.NO_GUARANTEE
    assert math.isinf(found.epsilon)


def test_scales_released_privately_are_paid_for() -> None:
    free = replace(SHUFFLED, epochs=1)
    paid = replace(free, alpha_source=ScaleSource.DP, alpha_noise_multiplier=5.0)
    assert free.guarantee().epsilon < paid.guarantee().epsilon
    much_noise = replace(paid, alpha_noise_multiplier=1e6)
    assert much_noise.guarantee().epsilon == pytest.approx(free.guarantee().epsilon, rel=1e-6)


def test_shuffled_batches_under_add_or_remove_have_no_guarantee() -> None:
    refused = replace(SHUFFLED, relation=Relation.ADD_OR_REMOVE).guarantee()
    assert refused.verdict is Verdict.NO_GUARANTEE


def test_noise_too_small_for_float32_has_no_guarantee() -> None:
    tiny = replace(SHUFFLED, noise_multiplier=1e-6, decay=Decay.EXPONENTIAL, tau=0.5, epochs=30)
    statement = tiny.statement()
    assert statement.claimed.log10_epsilon == pytest.approx(24.49, abs=0.01)
    assert "float32" in statement.guarantee.reasons[0]


def test_users_need_users_to_be_sampled() -> None:
    found = replace(ADVERTISED, unit=Unit.USER, epochs=1).guarantee()
    assert found.unit is Unit.USER
    assert any("users are sampled" in sentence for sentence in found.assumptions)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise_multiplier": 0.0}, "Expected noise multiplier > 0"),
        ({"delta": 0.0}, "Gaussian noise gives no pure epsilon"),
        ({"delta": 1.0}, "Expected delta"),
        ({"alpha": (1.0, -2.0)}, "Expected every alpha > 0, got -2"),
        ({"sampling_rate": None}, "Expected a sampling rate"),
        ({"sampling_rate": 0.0}, "Expected sampling rate in"),
        ({"epochs": 0}, "Expected epochs >= 1"),
        ({"workers": 0}, "Expected workers >= 1"),
        ({"tau": -1.0}, "Expected tau >= 0"),
        ({"unit": Unit.TOKEN}, "Expected the unit example or user"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(ADVERTISED, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", PRIVATE_METHODS)
def test_noise_that_decays_to_nothing_is_no_guarantee(method: Method) -> None:
    recipe = replace(ADVERTISED, method=method, decay=Decay.EXPONENTIAL, tau=1000.0)
    statement = recipe.statement()
    assert recipe.noise_multiplier_of(1) == 0
    assert statement.guarantee.verdict is Verdict.NO_GUARANTEE
    assert math.isinf(statement.claimed.log10_epsilon)
    # The twin: as long as the noise is positive, the logarithm is finite.
    assert 600 < replace(recipe, tau=80.0).statement().claimed.log10_epsilon < math.inf
