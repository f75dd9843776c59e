import json
import math
from collections.abc import Sequence

import numpy as np
import pytest

from sottovoce.audit._checks import Scores
from sottovoce.audit.exposure import (
    BATCH,
    Exposure,
    exact_exposure,
    mean_exposure,
    sampled_exposure,
)
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

SIZE = 3 * BATCH + 17
BELIEFS = np.random.default_rng(1).normal(size=SIZE)


def score(candidates: Sequence[int]) -> Scores:
    return BELIEFS[list(candidates)]


@pytest.mark.parametrize("secret", [0, 17, SIZE - 1, int(BELIEFS.argmax()), int(BELIEFS.argmin())])
def test_the_exact_rank(secret: int) -> None:
    found = exact_exposure(score, secret, candidates=SIZE)
    rank = 1 + sum(belief > BELIEFS[secret] for belief in BELIEFS)
    assert found.rank == rank
    assert found.bits == pytest.approx(math.log2(SIZE / rank))
    assert found.interval == (found.bits, found.bits)


def test_a_known_secret_is_exposed_whole_and_an_indifferent_model_exposes_one_bit() -> None:
    best = exact_exposure(score, int(BELIEFS.argmax()), candidates=SIZE)
    assert best.bits == best.possible_bits == math.log2(SIZE)
    indifferent = exact_exposure(lambda tried: [0.0] * len(tried), 5, candidates=1023)
    assert indifferent.rank == 512
    assert indifferent.bits == pytest.approx(1, abs=0.01)


def test_without_memory_the_mean_is_1_44_bits() -> None:
    """Ranks of 200 random secrets: the standard error is 0.1; four are allowed."""
    secrets = NoiseSource.seeded(2).integers(SIZE, 200).tolist()
    mean = mean_exposure([exact_exposure(score, each, candidates=SIZE) for each in secrets])
    assert abs(mean - math.log2(math.e)) < 0.41


def test_the_sample_agrees_with_the_exact_rank() -> None:
    """At 99 % confidence at most a few of 100 intervals miss; 6 or more have chance 0.0005."""
    missed = 0
    source = NoiseSource.seeded(3)
    for secret in source.integers(SIZE, 100).tolist():
        exact = exact_exposure(score, secret, candidates=SIZE)
        found = sampled_exposure(
            score, secret, candidates=SIZE, sample=500, source=source, confidence=0.99
        )
        low, high = found.interval
        assert low <= found.bits <= high
        missed += not low <= exact.bits <= high
    assert missed <= 5


def test_ties_widen_the_interval() -> None:
    found = sampled_exposure(
        lambda tried: [0.0] * len(tried), 5, candidates=1000, sample=100, source=NoiseSource()
    )
    assert found.interval.low == 0
    assert found.interval.high == found.possible_bits


def test_progress_is_told() -> None:
    told: list[int] = []
    exact_exposure(score, 0, candidates=SIZE, progress=told.append)
    assert told == [BATCH, 2 * BATCH, 3 * BATCH, SIZE]
    told.clear()
    sampled_exposure(
        score, 0, candidates=SIZE, sample=BATCH + 1, source=NoiseSource(), progress=told.append
    )
    assert told == [BATCH, BATCH + 1]


def test_json_both_ways() -> None:
    exact = exact_exposure(score, 3, candidates=SIZE)
    sampled = sampled_exposure(score, 3, candidates=SIZE, sample=10, source=NoiseSource())
    for found in (exact, sampled):
        assert Exposure.from_json(json.loads(json.dumps(found.to_json()))) == found
    for bad in ({}, {"interval": [1]}, exact.to_json() | {"unknown": 1}):
        with pytest.raises(InvalidInput, match="Expected an exposure in JSON"):
            Exposure.from_json(bad)


def test_bad_input() -> None:
    source = NoiseSource()
    with pytest.raises(InvalidInput, match="Expected a secret from 0 to 9, got 10"):
        exact_exposure(score, 10, candidates=10)
    with pytest.raises(InvalidInput, match="Expected candidates >= 1, got 0"):
        exact_exposure(score, 0, candidates=0)
    with pytest.raises(InvalidInput, match="Expected sample >= 1, got 0"):
        sampled_exposure(score, 0, candidates=10, sample=0, source=source)
    with pytest.raises(InvalidInput, match="Expected a confidence"):
        sampled_exposure(score, 0, candidates=10, sample=5, source=source, confidence=1.0)
    with pytest.raises(InvalidInput, match="Expected 10 numbers in the candidates' scores, got 1"):
        exact_exposure(lambda tried: [0.0], 0, candidates=10)
    with pytest.raises(InvalidInput, match="Expected the secret's score without NaN"):
        exact_exposure(lambda tried: [math.nan] * len(tried), 0, candidates=10)
    with pytest.raises(InvalidInput, match="at least one secret, got none"):
        mean_exposure([])
