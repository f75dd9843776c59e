"""Categorical draws: the exact shares of the 2**64 words."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy.noise.fixed import FixedWords

from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import Categorical, NoiseSource

EXTREMES = [0, 1, 2**63 - 1, 2**63, 2**64 - 1]


def shares(distribution: Categorical) -> dict[int, int]:
    """How many of the 2**64 words belong to each alternative."""
    ends = [0, *distribution._ends.tolist(), 2**64]
    owners = distribution._alternatives.tolist()
    return {k: ends[i + 1] - ends[i] for i, k in enumerate(owners)}


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40).filter(any))
def test_shares_are_the_probabilities_and_rare_ones_are_rounded_up(weights: list[float]) -> None:
    share = shares(Categorical(weights))
    total = sum(Fraction(weight) for weight in weights)
    assert sum(share.values()) == 2**64
    assert set(share) == {k for k, weight in enumerate(weights) if weight > 0}
    largest = weights.index(max(weights))
    for k in set(share) - {largest}:
        exact = Fraction(weights[k]) / total * 2**64
        assert exact * (1 - Fraction(1, 2**50)) <= share[k] <= exact * (1 + Fraction(1, 2**50)) + 1
        assert share[k] >= 1


def test_impossible_and_certain_alternatives_are_exact() -> None:
    assert Categorical([0, 1, 0]).draw(5, FixedWords(EXTREMES)).tolist() == [1] * 5
    assert Categorical([0, 0, 5, 0]).draw(5, FixedWords(EXTREMES)).tolist() == [2] * 5
    ends = Categorical([0, 1, 0, 1, 0]).draw(5, FixedWords(EXTREMES)).tolist()
    assert ends == [3, 3, 3, 1, 1]


def test_against_a_plain_search() -> None:
    weights = np.arange(1.0, 30.0)
    distribution = Categorical(weights)
    words = NoiseSource.seeded(1).words(500).tolist()
    ends, owners = distribution._ends.tolist(), distribution._alternatives.tolist()
    plain = [owners[sum(end <= word for end in ends)] for word in words]
    assert distribution.draw(500, NoiseSource.seeded(1)).tolist() == plain


@pytest.mark.parametrize("factor", [1e-320, 1e-300, 1e300])
def test_weights_need_no_normalising(factor: float) -> None:
    few = Categorical(np.array([3.0, 1.0, 4.0]) * factor)
    assert shares(few)[2] / 2**64 == pytest.approx(0.5, rel=1e-3)


def test_empty_draws() -> None:
    assert Categorical([1, 2]).draw(0, NoiseSource()).shape == (0,)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], "list of weights"),
        ([[0.5, 0.5]], "list of weights"),
        ([0.0, 0.0], "at least one weight above 0"),
        ([0.5, -0.1], "weights >= 0, got -0.1"),
        ([0.5, math.nan], "weights >= 0, got nan"),
        ([0.5, math.inf], "weights >= 0, got inf"),
    ],
)
def test_bad_weights(weights: list[float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Categorical(weights)
