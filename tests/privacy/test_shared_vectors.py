"""Every vector about accounting in ../shared/vectors, read from the files where they are at hand.

The numbers that matter most are also written into the tests of each part; this is the whole list.
Vectors of the audit are tested in `tests/audit`, those of metrics and rescoring with their pillars.
"""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sottovoce.privacy.accountants import gaussian, papers, pld, tokens
from sottovoce.privacy.accountants.losses import LaplaceLoss, PoissonGaussianLoss, TokenLoss
from sottovoce.privacy.facts import Contribution, Noise, NoisySum, amplified
from sottovoce.privacy.guarantee import Relation, Unit, number_from_json
from sottovoce.privacy.recipes import Decay, FederateRecipe, Kernel
from sottovoce.privacy.recipes.deid import (
    histogram_threshold,
    replace_probability,
)
from sottovoce.privacy.recipes.federate import kernel_weights

FOLDER = Path(__file__).parents[2].parent / "shared" / "vectors"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the reference vectors (../shared/vectors) are not here"
)


def load(name: str) -> Any:
    return json.loads((FOLDER / name).read_text()) if FOLDER.is_dir() else None


def group(name: str) -> list[Any]:
    vectors = (load("privacy.json") or {"vectors": []})["vectors"]
    found = [vector for vector in vectors if vector["group"] == name]
    return [pytest.param(v["inputs"], v["outputs"], id=v["id"]) for v in found]


def multipliers(given: dict[str, Any], factor: float = 1.0) -> list[float]:
    decay = Decay(given["decay"])
    return [factor * given["z0"] * decay.factor(given["tau"], t) for t in range(given["epochs"])]


@pytest.mark.parametrize(("given", "expected"), group("paper_mode_zcdp"))
def test_paper_mode(given: dict[str, Any], expected: dict[str, float]) -> None:
    claim = papers.zcdp(multipliers(given), given["delta"], "zCDP")
    assert claim.epsilon == pytest.approx(expected["epsilon_zcdp"], rel=1e-12)
    mu = gaussian.compose(1 / z for z in multipliers(given))
    tight = expected["epsilon_tight_gaussian_same_mechanism"]
    assert gaussian.epsilon_of(mu, given["delta"]) == pytest.approx(tight, rel=1e-11)


@pytest.mark.parametrize(("given", "expected"), group("paper_mode_zcdp_corrected"))
def test_paper_mode_corrected(given: dict[str, Any], expected: dict[str, float]) -> None:
    workers = math.sqrt(given["workers"]) if given["split"] == "paper_independent" else 1
    factor = 1 / (given["sensitivity_factor_kappa"] * given["max_alpha"] * workers)
    noise = multipliers(given, factor)
    claim = papers.zcdp(noise, given["delta"], "zCDP")
    assert claim.epsilon == pytest.approx(expected["epsilon_zcdp"], rel=1e-12)
    tight = gaussian.epsilon_of(gaussian.compose(1 / z for z in noise), given["delta"])
    assert tight == pytest.approx(expected["epsilon_tight_gaussian"], rel=1e-11)


@pytest.mark.parametrize(("given", "expected"), group("effective_noise_multiplier"))
def test_effective_noise(given: dict[str, Any], expected: dict[str, float]) -> None:
    on_sum, alpha = expected["sum_noise_std_over_C"], given["alpha"]
    scaled = given["noise_shape"] == "scaled"
    step = NoisySum(
        unit=Unit.EXAMPLE,
        clip_norm=1.0,
        sampling_rate=0.1,
        scales=tuple(map(float, alpha)),
        noise_stds=tuple(on_sum * a if scaled else on_sum for a in alpha),
        contribution=Contribution.MIXED if given["kappa"] == 2 else Contribution.PER_UNIT,
    )
    effective = step.noise_multiplier(Relation.ADD_OR_REMOVE)
    assert effective == pytest.approx(expected["effective_noise_multiplier"], rel=1e-12)


@pytest.mark.parametrize(("given", "expected"), group("gaussian_eps_of_delta"))
def test_gaussian_epsilon(given: dict[str, Any], expected: dict[str, float]) -> None:
    found = gaussian.epsilon_of(1 / given["noise_multiplier"], given["delta"])
    assert found == pytest.approx(expected["epsilon"], rel=1e-11)


@pytest.mark.parametrize(("given", "expected"), group("gaussian_delta_of_eps"))
def test_gaussian_delta(given: dict[str, Any], expected: dict[str, float]) -> None:
    found = gaussian.delta_of(given["mu"], given["epsilon"])
    assert found == pytest.approx(expected["delta"], rel=1e-11)


@pytest.mark.parametrize(("given", "expected"), group("poisson_subsampled_gaussian_schedule"))
def test_sampled_schedules(given: dict[str, Any], expected: dict[str, float]) -> None:
    noise = multipliers(given, given.get("nm_factor", 1.0))
    losses = [(PoissonGaussianLoss(given["q"], z), given["steps_per_epoch"]) for z in noise]
    found = pld.epsilon_of(losses, given["delta"])
    assert expected["epsilon_tight"] * (1 - 1e-4) <= found
    assert found <= expected["epsilon_tight"] * (1 + 1e-3)


@pytest.mark.parametrize(("given", "expected"), group("fmp_laplace"))
def test_laplace_counts(given: dict[str, Any], expected: dict[str, float]) -> None:
    if "nbest" in given:
        mass = sum(kernel_weights(given["nbest"], given["sigma"]))
        assert mass == pytest.approx(expected["kernel_weight_sum"], rel=1e-12)
        return
    rounds = given["rounds"] if given["mode"] == "cumulative" else 1
    loss = LaplaceLoss(given["epsilon_per_count"] * given["l1_sensitivity_tokens"])
    assert rounds * loss.epsilon == pytest.approx(expected["pure_epsilon"])
    found = pld.epsilon_of([(loss, rounds)], given["delta"])
    assert expected["epsilon_at_delta"] * (1 - 1e-4) <= found
    assert found <= expected["epsilon_at_delta"] * (1 + 1e-3)


@pytest.mark.parametrize(("given", "expected"), group("table1_consistency"))
def test_cells_of_the_papers_table(given: dict[str, Any], expected: dict[str, Any]) -> None:
    decay = {"none": Decay.NONE, "lin": Decay.LINEAR, "exp": Decay.EXPONENTIAL}[given["decay"]]
    for z0, tau, epochs, log10 in (
        expected["min_epochs_solution_z0_tau_E_log10eps"],
        *expected["examples_z0_tau_E_log10eps"],
    ):
        noise = [z0 * decay.factor(tau, t) for t in range(epochs)]
        found = papers.zcdp(noise, given["delta"], "zCDP").log10_epsilon
        assert found == pytest.approx(log10, abs=1e-4)
        assert found == pytest.approx(given["published_log10_eps"], abs=0.051)


def test_deid_vectors() -> None:
    vectors = load("deid.json")
    for row in vectors["epsilon"]:
        found = TokenLoss(row["p"], row["pi_min"]).log_ratio
        assert found == pytest.approx(number_from_json(row["epsilon"]), abs=1e-6)
    for row in vectors["renormalised_per_type"]:
        ((_, counts),) = row["counts"].items()
        found = TokenLoss(row["p"], min(counts) / sum(counts)).log_ratio
        assert found == pytest.approx(row["epsilon"], abs=1e-6)
    for row in vectors["inverse_p"]:
        found = replace_probability(row["epsilon"], row["pi_min"])
        assert found == pytest.approx(row["p"], abs=1e-6)
    for row in vectors["composition_exact"]:
        loss = TokenLoss(row["p"], row["pi_min"])
        found = tokens.epsilon_of([(loss, row["tokens"])], row["delta"])
        assert found == pytest.approx(row["epsilon"], abs=1e-5)
    for row in vectors["histogram_threshold"]:
        found = histogram_threshold(row["epsilon_h"], row["delta"])
        assert found == pytest.approx(row["threshold"], abs=1e-6)


def test_federated_sensitivities_and_sampling() -> None:
    vectors = load("federated.json")
    for row in vectors["utterance_level"]:
        recipe = FederateRecipe(
            noise=Noise.LAPLACE, scale=2.0, max_words=row["m_words_per_hyp"], nbest=row["N"],
            sigma=row["sigma"],
        )  # fmt: skip
        assert recipe.sensitivity() == pytest.approx(row["raw_L1_addremove"], abs=1e-6)
        normalised = replace(recipe, kernel=Kernel.NORMALISED)
        assert normalised.sensitivity() == pytest.approx(row["norm_L1_addremove"])
        true = row["eps_claimed_0.5_b=2_true_utterance_eps_raw"]
        assert recipe.guarantee().epsilon == pytest.approx(true, abs=1e-6)
    for row in vectors["subsampling"]:
        found = amplified(row["eps0"], row["q"])
        assert found == pytest.approx(row["eps_amplified=ln(1+q(e^eps0-1))"], abs=1e-6)
