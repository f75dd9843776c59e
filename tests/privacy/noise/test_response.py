"""Randomised response: exact at probabilities 0 and 1, and replacements differ from the value."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy.noise.fixed import FixedWords

from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource, keep_or_replace, randomised_response
from sottovoce.privacy.noise.discrete import ALWAYS, lie_probability, threshold

EXTREMES = [0, 1, 2**63 - 1, 2**63, 2**64 - 1]


@settings(derandomize=True, deadline=None)
@given(st.floats(0, 1))
def test_thresholds_are_rounded_up_by_less_than_one_word(probability: float) -> None:
    exact = Fraction(probability) * ALWAYS
    assert exact <= threshold(probability) < exact + 1


def test_never_and_always_are_exact() -> None:
    source = FixedWords(EXTREMES)
    assert not keep_or_replace(5, 0.0, source).any()
    assert keep_or_replace(5, 1.0, source).all()
    assert keep_or_replace(5, 0.5, source).tolist() == [True, True, True, False, False]
    assert keep_or_replace(5, 1e-300, source).tolist() == [True, False, False, False, False]
    assert keep_or_replace(5, np.nextafter(1.0, 0.0), source)[:4].all()


def test_empty_coins() -> None:
    assert keep_or_replace(0, 0.5, NoiseSource()).shape == (0,)
    assert keep_or_replace(0, 1.0, NoiseSource()).shape == (0,)


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan, math.inf])
def test_impossible_probabilities(probability: float) -> None:
    with pytest.raises(InvalidInput, match="Expected replace_probability"):
        keep_or_replace(3, probability, NoiseSource())


def test_a_negative_number_of_coins() -> None:
    for probability in [0.5, 1.0]:
        with pytest.raises(InvalidInput, match="Expected n >= 0"):
            keep_or_replace(-1, probability, NoiseSource())


@settings(derandomize=True, deadline=None)
@given(categories=st.integers(2, 10_000), epsilon=st.floats(0, 30))
def test_the_odds_of_the_truth_against_each_lie_are_e_to_the_epsilon(
    categories: int, epsilon: float
) -> None:
    lie = lie_probability(categories, epsilon)
    assert (1 - lie) / (lie / (categories - 1)) == pytest.approx(math.exp(epsilon), rel=1e-3)
    assert lie == pytest.approx((categories - 1) / (math.exp(epsilon) + categories - 1), rel=1e-12)


def test_against_a_plain_response() -> None:
    truth = np.arange(200) % 7
    answers = randomised_response(truth, 7, 1.0, NoiseSource.seeded(1))
    source = NoiseSource.seeded(1)
    lies = [word < threshold(lie_probability(7, 1.0)) for word in source.words(200).tolist()]
    steps = iter(source.integers(6, sum(lies)).tolist())
    expected = [
        (value + 1 + next(steps)) % 7 if lie else value
        for value, lie in zip(truth.tolist(), lies, strict=True)
    ]
    assert answers.tolist() == expected
    assert 0 < sum(lies) < 200


def test_shapes_and_values_survive() -> None:
    truth = np.array([[0, 1], [2, 1]], np.uint8)
    answers = randomised_response(truth, 3, 700.0, NoiseSource())
    assert (answers == truth).all()
    assert answers.dtype == np.int64
    assert truth.tolist() == [[0, 1], [2, 1]]
    assert randomised_response([], 3, 1.0, NoiseSource()).shape == (0,)
    assert randomised_response(2, 3, 700.0, NoiseSource()).shape == ()


def test_the_argument_is_not_changed() -> None:
    truth = np.zeros(100, np.int64)
    assert randomised_response(truth, 5, 0.0, NoiseSource.seeded(1)).any()
    assert not truth.any()


def test_a_single_category_has_nothing_to_hide() -> None:
    assert randomised_response([0, 0], 1, 0.0, NoiseSource()).tolist() == [0, 0]


def test_two_categories_at_epsilon_zero_are_a_fair_coin() -> None:
    words = [0, 2**63 - 1, 2**63, 2**64 - 1]
    answers = randomised_response([0, 0, 1, 1], 2, 0.0, FixedWords(words))
    assert answers.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("wrong", [3, -1, 2**40])
def test_values_outside_the_categories(wrong: int) -> None:
    with pytest.raises(InvalidInput, match=f"Expected values from 0 to 2, got {wrong}"):
        randomised_response([0, wrong, 2], 3, 1.0, NoiseSource())


def test_bad_arguments() -> None:
    with pytest.raises(InvalidInput, match="integers, got float64"):
        randomised_response([0.5], 3, 1.0, NoiseSource())
    with pytest.raises(InvalidInput, match="Expected categories >= 1"):
        randomised_response([0], 0, 1.0, NoiseSource())
    for epsilon in [-1.0, math.nan, math.inf]:
        with pytest.raises(InvalidInput, match="Expected epsilon >= 0"):
            randomised_response([0], 3, epsilon, NoiseSource())
