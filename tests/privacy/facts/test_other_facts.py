"""Facts of counts, tokens and releases known by their epsilon."""

import math
from dataclasses import replace

import pytest

from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants.losses import (
    ConcentratedLoss,
    GaussianLoss,
    LaplaceLoss,
    PureLoss,
    TokenLoss,
)
from sottovoce.privacy.facts import (
    BoundedRelease,
    MetricRelease,
    Noise,
    NoisyVector,
    ReplacedTokens,
    SurrogateSource,
    Unprotected,
    amplified,
    fact_from_json,
)
from sottovoce.privacy.guarantee import Notion, Relation, Unit

ADD, REPLACE = Relation.ADD_OR_REMOVE, Relation.REPLACE_ONE
COUNTS = NoisyVector(unit=Unit.USER, noise=Noise.LAPLACE, scale=2.0, sensitivity=1.0)
TOKEN = ReplacedTokens(unit=Unit.TOKEN, replace_probability=0.9, smallest_probability=0.1)


@pytest.mark.parametrize(
    ("noise", "loss"),
    [
        (Noise.LAPLACE, LaplaceLoss(0.5)),
        (Noise.DISCRETE_LAPLACE, PureLoss(0.5)),
        (Noise.GAUSSIAN, GaussianLoss(0.5)),
        (Noise.DISCRETE_GAUSSIAN, ConcentratedLoss(0.125)),
    ],
)
def test_loss_of_each_noise(noise: Noise, loss: object) -> None:
    assert replace(COUNTS, noise=noise).losses(ADD) == [(loss, 1)]


def test_replacing_moves_twice_as_far_unless_more_is_known() -> None:
    assert COUNTS.losses(REPLACE) == [(LaplaceLoss(1.0), 1)]
    known = replace(COUNTS, replace_sensitivity=math.sqrt(2))
    assert known.losses(REPLACE) == [(LaplaceLoss(math.sqrt(2) / 2), 1)]


def test_why_two_norms_differ_by_root_two() -> None:
    """Two non-negative vectors within a ball of radius B differ by at most sqrt(2) B."""
    import numpy as np

    draws = np.abs(np.random.default_rng(0).standard_normal((2, 20_000, 3)))
    draws /= np.maximum(np.linalg.norm(draws, axis=-1, keepdims=True), 1)
    assert np.linalg.norm(draws[0] - draws[1], axis=-1).max() <= math.sqrt(2)


@pytest.mark.parametrize(
    ("rate", "epsilon", "expected"),
    [(0.1, 0.5, 0.062855), (0.1, 1.0, 0.158565), (0.01, 1.0, 0.017037), (0.1, 4.0, 1.849999)],
)
def test_amplification_by_sampling_clients(rate: float, epsilon: float, expected: float) -> None:
    assert amplified(epsilon, rate) == pytest.approx(expected, abs=1e-6)
    sampled = replace(COUNTS, scale=1 / epsilon, sampling_rate=rate)
    ((loss, _),) = sampled.losses(ADD)
    assert isinstance(loss, PureLoss)
    assert loss.epsilon == pytest.approx(expected, abs=1e-6)
    assert any("which clients" in sentence for sentence in sampled.assumptions(ADD))


def test_amplification_does_not_overflow() -> None:
    assert amplified(1e4, 0.1) == pytest.approx(1e4 + math.log(0.1))


def test_tokens_lose_by_recall_what_the_detector_misses() -> None:
    missed = replace(TOKEN, replace_probability=1.0, smallest_probability=0.001, recall=0.95)
    ((loss, count),) = missed.losses(REPLACE)
    assert isinstance(loss, TokenLoss)
    assert loss.log_ratio == pytest.approx(3.982138, abs=1e-6)
    assert count == 1
    assert any("do not depend on their values" in text for text in missed.assumptions(REPLACE))


def test_surrogates_from_the_same_corpus_are_objected_to() -> None:
    own = replace(TOKEN, replace_probability=1.0, surrogates=SurrogateSource.SAME_CORPUS)
    assert "probability 0.632" in own.objections(REPLACE)[0]


def test_tokens_are_not_added_or_removed() -> None:
    assert "replace-one" in TOKEN.objections(ADD)[0]


@pytest.mark.parametrize(
    "fact",
    [
        COUNTS,
        replace(COUNTS, sampling_rate=0.1, pool="increments"),
        TOKEN,
        replace(TOKEN, tokens=3, surrogates=SurrogateSource.DP_HISTOGRAM),
        BoundedRelease(unit=Unit.TOKEN, mechanism="histogram", epsilon=1.0, delta=1e-6),
        MetricRelease(unit=Unit.TOKEN, mechanism="vector noise", epsilon=10.0),
        Unprotected(unit=Unit.USER, reason="the vocabulary was taken from private text"),
    ],
)
def test_json_both_ways(fact: NoisyVector) -> None:
    assert fact_from_json(fact.to_json()) == fact


def test_metric_privacy_is_a_notion_of_its_own() -> None:
    assert MetricRelease(unit=Unit.TOKEN, mechanism="m", epsilon=1.0).notion is Notion.METRIC_DP


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "Expected a fact of kind"),
        ({"kind": "magic"}, "got 'magic'"),
        ({"kind": "unprotected", "unit": "user", "colour": 1}, "Expected no field 'colour'"),
        ({"kind": "unprotected", "unit": "user"}, "incomplete"),
    ],
)
def test_bad_json_is_refused(data: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        fact_from_json(data)


@pytest.mark.parametrize(
    ("fact", "changes", "message"),
    [
        (COUNTS, {"scale": 0.0}, "Expected scale > 0"),
        (COUNTS, {"sensitivity": -1.0}, "Expected sensitivity > 0"),
        (COUNTS, {"noise": Noise.GAUSSIAN, "sampling_rate": 0.1}, "Expected Laplace noise"),
        (TOKEN, {"replace_probability": 2.0}, "Expected replace_probability"),
        (TOKEN, {"smallest_probability": 0.6}, r"Expected smallest_probability in \[0, 0.5\]"),
        (TOKEN, {"tokens": 0}, "Expected tokens >= 1"),
        (TOKEN, {"recall": -0.1}, "Expected recall"),
    ],
)
def test_bad_facts_are_refused(fact: object, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(fact, **changes)  # type: ignore[type-var]
