"""Exact token composition against vectors and against brute force over whole channels."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.privacy.accountants import tokens
from sottovoce.privacy.accountants.losses import TokenLoss


@pytest.mark.parametrize(
    ("p", "pi", "epsilon"),
    [
        (0.5, 0.5, 1.098612),
        (0.9, 0.1, 0.747214),
        (0.99, 0.001, 2.407036),
        (0.7, 0.0001, 8.363276),
        (1e-6, 0.5, 14.508657),
        (1.0, 0.0, 0.0),
        (0.0, 0.5, math.inf),
        (0.9, 0.0, math.inf),
        (0.8, 0.1, 1.252763),  # counts 6, 3, 1 of one type
        (0.8, 0.2, 0.81093),  # counts 8, 2
        (0.5, 0.001, 6.90875477931522),
        (0.95 * 1.0, 0.001, 3.982138),  # recall 0.95, independent misses
    ],
)
def test_epsilon_of_one_token(p: float, pi: float, epsilon: float) -> None:
    assert TokenLoss(p, pi).log_ratio == pytest.approx(epsilon, abs=5e-7)


@pytest.mark.parametrize(
    ("p", "pi", "count", "delta", "epsilon"),
    [(0.99, 0.01, 10, 1e-6, 2.76907), (0.9, 0.01, 5, 1e-5, 11.42099)],
)
def test_composition_vectors(p: float, pi: float, count: int, delta: float, epsilon: float) -> None:
    found = tokens.epsilon_of([(TokenLoss(p, pi), count)], delta)
    assert found == pytest.approx(epsilon, abs=1e-5)


def test_pure_sum_is_the_basic_bound() -> None:
    assert tokens.epsilon_of([(TokenLoss(0.99, 0.01), 10)], 0.0) == pytest.approx(6.98185, abs=1e-5)


def channel(p: float, pi: np.ndarray) -> np.ndarray:
    return (1 - p) * np.eye(len(pi)) + p * np.tile(pi, (len(pi), 1))


def brute_force_delta(rows: list[tuple[np.ndarray, np.ndarray]], epsilon: float) -> float:
    """Sum over all output sequences of (P - e^epsilon Q)+."""
    total = 0.0
    for outputs in itertools.product(*(range(len(left)) for left, _ in rows)):
        left = math.prod(row[0][y] for row, y in zip(rows, outputs, strict=True))
        right = math.prod(row[1][y] for row, y in zip(rows, outputs, strict=True))
        total += max(0.0, left - math.exp(epsilon) * right)
    return total


@given(
    st.floats(0.2, 0.99),
    st.lists(st.floats(0.05, 1.0), min_size=2, max_size=4),
    st.integers(1, 3),
    st.sampled_from([1e-3, 1e-2, 0.1]),
)
def test_no_pair_of_inputs_beats_the_stated_epsilon(
    p: float, weights: list[float], count: int, delta: float
) -> None:
    pi = np.array(weights) / sum(weights)
    kernel = TokenLoss(p, float(pi.min()))
    epsilon = tokens.epsilon_of([(kernel, count)], delta)
    rows = channel(p, pi)
    for x, other in itertools.permutations(range(len(pi)), 2):
        spent = brute_force_delta([(rows[x], rows[other])] * count, epsilon)
        assert spent <= delta * (1 + 1e-9) + 1e-12


def test_two_least_likely_inputs_reach_the_stated_epsilon_exactly() -> None:
    p, pi = 0.7, np.array([0.1, 0.1, 0.8])
    rows = channel(p, pi)
    epsilon = tokens.epsilon_of([(TokenLoss(p, 0.1), 2)], 0.01)
    spent = brute_force_delta([(rows[0], rows[1])] * 2, epsilon)
    assert spent == pytest.approx(0.01, rel=1e-9)
    # The twin: a slightly smaller epsilon does not hold.
    assert brute_force_delta([(rows[0], rows[1])] * 2, epsilon - 0.01) > 0.01


def test_types_with_different_kernels_compose() -> None:
    mixed = [(TokenLoss(0.99, 0.01), 4), (TokenLoss(0.9, 0.1), 3), (TokenLoss(1.0, 0.0), 5)]
    epsilon = tokens.epsilon_of(mixed, 1e-6)
    assert tokens.epsilon_of(mixed[:1], 1e-6) < epsilon < tokens.pure_epsilon(mixed)


def test_many_types_are_rounded_up_to_a_grid_not_down() -> None:
    many = [(TokenLoss(0.9 + 0.01 * k, 0.05), 12) for k in range(6)]
    epsilon = tokens.epsilon_of(many, 1e-6)
    fewer_atoms = [(TokenLoss(0.9, 0.05), 72)]
    assert tokens.epsilon_of([(TokenLoss(0.95, 0.05), 72)], 1e-6) < epsilon
    assert epsilon < tokens.epsilon_of(fewer_atoms, 1e-6)


@pytest.mark.parametrize(("delta", "epsilon"), [(0.1, 0.0), (0.0999, math.inf), (0.0, math.inf)])
def test_a_placeholder_holds_from_delta_one_minus_p(delta: float, epsilon: float) -> None:
    assert tokens.epsilon_of([(TokenLoss(0.9, 0.0), 1)], delta) == epsilon


def test_delta_of_epsilon_vector() -> None:
    """delta(1) = 0.084535 for p 0.9 and pi 0.01, so at that delta epsilon is 1."""
    assert tokens.epsilon_of([(TokenLoss(0.9, 0.01), 1)], 0.084535) == pytest.approx(1, abs=1e-3)
