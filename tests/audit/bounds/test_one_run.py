import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binom

from sottovoce.audit.bounds import LowerBound, one_run_bound, one_run_gaussian_bound, p_value
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants import gaussian

Bound = Callable[..., LowerBound]
BOUNDS: list[Bound] = [one_run_bound, one_run_gaussian_bound]


def p_value_as_printed(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The formula term by term, from scipy's binomial distribution."""
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    below = np.array(binom.cdf(range(-1, v), r, q))  # P[Bin < 0], ..., P[Bin < v]
    windows = [(below[v] - below[v - i]) / i for i in range(1, v + 1)]
    return float(binom.sf(v - 1, r, q) + 2 * m * delta * max(windows))


@st.composite
def games(draw: st.DrawFn) -> tuple[int, int, int]:
    guesses = draw(st.integers(1, 60))
    return draw(st.integers(guesses, 300)), guesses, draw(st.integers(1, guesses))


@given(games(), st.floats(0, 6), st.sampled_from([0.0, 1e-6, 1e-3]))
def test_p_value_equals_the_formula(
    game: tuple[int, int, int], epsilon: float, delta: float
) -> None:
    m, r, v = game
    p = p_value(canaries=m, guesses=r, correct=v, epsilon=epsilon, delta=delta)
    assert p == pytest.approx(min(1, p_value_as_printed(m, r, v, epsilon, delta)), abs=1e-11)


@given(games(), st.sampled_from([0.0, 1e-6, 1e-3, 0.01]), st.floats(0.6, 0.999))
def test_the_bound_is_where_the_p_value_crosses(
    game: tuple[int, int, int], delta: float, confidence: float
) -> None:
    m, r, v = game
    bound = one_run_bound(canaries=m, guesses=r, correct=v, delta=delta, confidence=confidence)
    assume(bound.epsilon > 0)
    assert p_value_as_printed(m, r, v, bound.epsilon * 0.999, delta) < 1 - confidence
    # Nowhere above is the p-value small again: it is the largest refuted epsilon.
    for factor in (1.001, 1.01, 1.1, 1.5, 2, 3):
        assert p_value_as_printed(m, r, v, bound.epsilon * factor, delta) > 1 - confidence


@given(games(), st.sampled_from([1e-9, 1e-5, 1e-3]))
def test_more_right_guesses_prove_more(game: tuple[int, int, int], delta: float) -> None:
    m, r, v = game
    for bound in BOUNDS:
        fewer, more = (
            bound(canaries=m, guesses=r, correct=k, delta=delta).epsilon for k in (v - 1, v)
        )
        assert fewer <= more * (1 + 1e-9)


@given(games(), st.lists(st.floats(0.5, 0.9999), min_size=2, max_size=2))
def test_more_confidence_proves_less(game: tuple[int, int, int], levels: list[float]) -> None:
    m, r, v = game
    for bound in BOUNDS:
        bold, careful = (
            bound(canaries=m, guesses=r, correct=v, delta=1e-5, confidence=level).epsilon
            for level in sorted(levels)
        )
        assert careful <= bold * (1 + 1e-9)


@given(st.integers(1, 2000))
def test_chance_proves_nothing(half: int) -> None:
    for bound in BOUNDS:
        assert bound(canaries=2 * half, guesses=2 * half, correct=half, delta=1e-5).epsilon == 0


@pytest.mark.parametrize("bound", BOUNDS)
def test_no_guess_right_proves_nothing(bound: Bound) -> None:
    assert bound(canaries=10, guesses=10, correct=0, delta=1e-5).epsilon == 0


def test_a_large_delta_leaves_nothing_to_prove() -> None:
    assert one_run_bound(canaries=10**4, guesses=100, correct=100, delta=0.01).epsilon == 0
    assert p_value(canaries=10, guesses=10, correct=0, epsilon=1.0, delta=0.1) == 1


def test_a_delta_that_rounding_swallows_changes_nothing() -> None:
    without = one_run_bound(canaries=100, guesses=100, correct=90, delta=0.0)
    tiny = one_run_bound(canaries=100, guesses=100, correct=90, delta=1e-300)
    assert tiny.epsilon == pytest.approx(without.epsilon, rel=1e-12)


def test_a_hundred_thousand_canaries() -> None:
    """All right: q^r = 0.05, so e^-epsilon = 0.05^(-1/r) - 1."""
    size = 10**5
    exact = -math.log(math.expm1(-math.log(0.05) / size))
    assert one_run_bound(
        canaries=size, guesses=size, correct=size, delta=0.0
    ).epsilon == pytest.approx(exact, rel=1e-9)
    for bound, correct in itertools.product(BOUNDS, (51_000, 90_000, 99_990)):
        found = bound(canaries=size, guesses=size, correct=correct, delta=1e-9).epsilon
        assert 0 < found < (exact if bound is one_run_bound else 30)


def test_the_gaussian_bound_is_larger_and_carries_its_mu() -> None:
    any_kind = one_run_bound(canaries=1000, guesses=100, correct=95, delta=1e-5)
    assumed = one_run_gaussian_bound(canaries=1000, guesses=100, correct=95, delta=1e-5)
    assert assumed.epsilon > any_kind.epsilon
    assert assumed.mu is not None
    assert any_kind.mu is None
    assert assumed.epsilon == pytest.approx(gaussian.epsilon_of(assumed.mu, 1e-5))
    assert "if the mechanism is Gaussian" in str(assumed)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"canaries": 0}, "Expected canaries >= 1, got 0."),
        ({"guesses": 0}, "Expected guesses >= 1, got 0."),
        ({"guesses": 1001}, r"Expected guesses from 0 to canaries \(1000\), got 1001."),
        ({"correct": 101}, r"Expected correct from 0 to guesses \(100\), got 101."),
        ({"correct": -1}, r"Expected correct from 0 to guesses \(100\), got -1."),
        ({"delta": 1.0}, r"Expected delta in \[0, 1\), got 1."),
        ({"delta": float("nan")}, r"Expected delta in \[0, 1\), got nan."),
        ({"confidence": 95}, "Expected a confidence between 0 and 1, such as 0.95, got 95."),
    ],
)
def test_bad_input(bound: Bound, change: dict[str, float], message: str) -> None:
    given = {"canaries": 1000, "guesses": 100, "correct": 90, "delta": 1e-5} | change
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        bound(**given)


def test_bad_epsilon() -> None:
    with pytest.raises(InvalidInput, match="Expected epsilon >= 0, got -1"):
        p_value(canaries=10, guesses=10, correct=9, epsilon=-1.0, delta=0.0)


def test_a_gaussian_has_no_pure_epsilon() -> None:
    with pytest.raises(InvalidInput, match="Expected delta > 0"):
        one_run_gaussian_bound(canaries=10, guesses=10, correct=9, delta=0.0)
