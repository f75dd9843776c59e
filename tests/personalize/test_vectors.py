"""The worked example and the sensitivities of ../shared/vectors/federated.json hold."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.personalize.federated.cache import ClientCache
from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.lm.vocabulary import Dirichlet, Vocabulary
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.rescoring.scores import Adaptation, normalised, shortcut
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.guarantee import Unit
from sottovoce.privacy.recipes.federate import Cap, Kernel, Release

KERNELS = {
    "kernel_raw": Kernel.RAW,
    "kernel_normalised_per_utterance": Kernel.NORMALISED,
}


@pytest.fixture(scope="module")
def vectors(shared_data: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shared_data.parent / "vectors/federated.json").read_text())
    return found


def caches(vectors: dict[str, Any], kernel: Kernel) -> tuple[Vocabulary, dict[str, ClientCache]]:
    given = vectors["inputs"]
    words = Vocabulary(tuple(given["vocab"]), np.array(given["u"]))
    clients = {}
    for client, utterances in given["nbest"].items():
        cache = ClientCache(words, Counting(sigma=given["sigma"], kernel=kernel))
        for i, texts in enumerate(utterances):
            cache.add(NBest(f"u{i}", tuple(Hypothesis(text) for text in texts)))
        clients[client] = cache
    return words, clients


def close(found: Any, expected: Any) -> bool:
    return bool(np.allclose(found, expected, atol=1.5e-6, rtol=0))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_worked_example(vectors: dict[str, Any], kernel: str) -> None:
    given = vectors["inputs"]
    words, clients = caches(vectors, KERNELS[kernel])
    rule = Adaptation(alpha=given["alpha"], beta=given["beta"], power=given["lambda"])
    expected = vectors["fmp"][f"{kernel}/dirichlet"]
    q = {name: cache.distribution(Dirichlet(1.0)) for name, cache in clients.items()}
    masses = [cache.mass for cache in clients.values()]
    q_bar = np.average(list(q.values()), axis=0, weights=masses)
    assert close(q_bar, expected["q_bar"])
    assert close(sum(masses), expected["c_total"])
    for name, cache in clients.items():
        assert close(cache.personal(), expected["n"][name])
        assert close(cache.mass, expected["c"][name])
        assert close(q[name], expected["q"][name])
        mixed = rule.mixture(words.unigram, q_bar, q[name])
        factors = rule.log_factors(words.unigram, q_bar, q[name])
        assert close(mixed, expected["g"][name])
        assert close(factors, expected["log_factor"][name])
        assert close(np.exp(factors), expected["factor"][name])


def test_normalisation_and_rescoring(vectors: dict[str, Any]) -> None:
    example = vectors["normalised_example"]
    background = np.log(example["p_nnlm_given_h"])
    factors = np.array(vectors["fmp"]["kernel_raw/dirichlet"]["log_factor"][example["client"]])
    raised = shortcut(background, factors)
    assert close(np.exp(raised), example["unnormalised"])
    assert close(np.exp(raised).sum(), example["Z"])
    assert close(np.exp(normalised(background, factors)), example["adapted"])
    index = {word: place for place, word in enumerate(vectors["inputs"]["vocab"])}
    for hypothesis in vectors["rescoring_example"]["hyps"]:
        added = sum(factors[index[word]] for word in hypothesis["text"].split())
        assert close(added, hypothesis["sum_log_factor"])


def test_kernel_masses(vectors: dict[str, Any]) -> None:
    for row in vectors["kernel_mass"]:
        weights = Counting(sigma=row["sigma"], nbest=row["N"]).weights(row["N"])
        assert close(weights.sum(), row["S"])
        assert close((weights**2).sum(), row["S2=sum K^2"])
    row = vectors["integer_kernel"]
    whole = Counting(sigma=row["sigma"], nbest=5, integer=True)
    assert whole.unit == row["scale"]
    assert whole.weights(5).tolist() == row["K_int(rank1..5)"]


def test_utterance_sensitivities(vectors: dict[str, Any]) -> None:
    for row in vectors["utterance_level"]:
        raw = {"sigma": row["sigma"], "nbest": row["N"], "max_words": row["m_words_per_hyp"]}
        for kernel, prefix in ((Kernel.RAW, "raw"), (Kernel.NORMALISED, "norm")):
            rule, once = (Counting(**raw, kernel=kernel, distinct=each) for each in (False, True))
            worst = next(key for key in row if key.startswith(f"{prefix}_L2_addremove_worst"))
            distinct = next(key for key in row if key.startswith(f"{prefix}_L2_distinct"))
            assert close(rule.l1_sensitivity, row[f"{prefix}_L1_addremove"])
            assert close(rule.l2_sensitivity, row[worst])
            assert close(once.l2_sensitivity, row[distinct])
            needed = ReleasePlan(counting=rule).calibrated(epsilon=1.0, rounds=10).scale
            assert needed == pytest.approx(row[f"laplace_scale_for_eps=1_{prefix}"], rel=1e-5)
        plan = ReleasePlan(counting=Counting(**raw), scale=2.0)
        again = ReleasePlan(counting=Counting(**raw), scale=2.0, release=Release.CUMULATIVE)
        key = "eps_claimed_0.5_b=2_true_utterance_eps_raw"
        assert close(plan.guarantee(rounds=10).epsilon, row[key])
        key = "same_T10_cumulative_rerelease(worst, utterance of round 1)"
        assert close(again.guarantee(rounds=10).epsilon, row[key])
        assert plan.claim().epsilon == 0.5


def test_user_level_laplace(vectors: dict[str, Any]) -> None:
    for row in vectors["user_level_laplace"]:
        mass, rounds, epsilon = row["M_mass_cap_per_round"], row["T"], row["eps_total"]
        for start, span, release in (
            ("b_increments_each", Cap.PER_ROUND, Release.INCREMENTS),
            ("b_increments_lifetime", Cap.LIFETIME, Release.INCREMENTS),
            ("b_cumulative_fresh_noise_lifetime", Cap.LIFETIME, Release.CUMULATIVE),
            ("b_cumulative_fresh_noise_per_round", Cap.PER_ROUND, Release.CUMULATIVE),
        ):
            expected = next(value for key, value in row.items() if key.startswith(start))
            plan = ReleasePlan(unit=Unit.USER, caps=Caps(mass, span=span), release=release)
            needed = plan.calibrated(epsilon=epsilon, rounds=rounds).scale
            assert needed == pytest.approx(expected, rel=1e-5)


def test_user_level_gaussian_is_no_worse_than_concentrated_dp(vectors: dict[str, Any]) -> None:
    for row in vectors["user_level_gaussian_zcdp"]:
        caps = Caps(row["M"], row["kappa_per_word_cap"])
        plan = ReleasePlan(unit=Unit.USER, caps=caps, noise=Noise.GAUSSIAN)
        assert close(plan.sensitivity(), row["L2=sqrt(kappa*M)"])
        needed = plan.calibrated(epsilon=row["eps"], rounds=row["T"], delta=row["delta"]).scale
        looser = next(value for key, value in row.items() if key.startswith("sigma_lifetime"))
        assert 0.7 * looser < needed < looser


def test_sampling_amplifies(vectors: dict[str, Any]) -> None:
    for row in vectors["subsampling"]:
        rule = Counting(sigma=1, nbest=1, max_words=1)
        plan = ReleasePlan(counting=rule, scale=1 / row["eps0"], sampling_rate=row["q"])
        expected = row["eps_amplified=ln(1+q(e^eps0-1))"]
        assert close(plan.guarantee(rounds=1).epsilon, expected)
        per_round = ReleasePlan(
            unit=Unit.USER,
            caps=Caps(1.0, span=Cap.PER_ROUND),
            scale=1 / row["eps0"],
            sampling_rate=row["q"],
        )
        assert close(per_round.guarantee(rounds=10).epsilon, row["T10_sequential"])


def test_discrete_noise(vectors: dict[str, Any]) -> None:
    for row in vectors["discrete_laplace"]:
        units = row["int_sensitivity"]
        plan = ReleasePlan(
            counting=Counting(integer=True),
            noise=Noise.DISCRETE_LAPLACE,
            unit=Unit.USER,
            caps=Caps(units / 64),
            scale=units / 64 / row["eps"],
        )
        assert plan.guarantee(rounds=10).epsilon == pytest.approx(row["eps"])
        variance = (plan.noise_std * 64) ** 2
        assert math.isclose(variance, row["variance=2a/(1-a)^2"], rel_tol=1e-6)
