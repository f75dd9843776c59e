from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from sottovoce.audit.bounds import clopper_pearson, clopper_pearson_bound, gaussian_bound
from sottovoce.errors import InvalidInput

BOUNDS = [clopper_pearson_bound, gaussian_bound]


def verdicts(found: int, false: int, **other: Any) -> dict[str, Any]:
    counts = {"true_positives": found, "members": 200, "false_positives": false}
    return counts | {"non_members": 300, "delta": 1e-5} | other


@given(st.integers(0, 50), st.integers(1, 50), st.floats(0.5, 0.999))
def test_the_interval_is_that_of_scipy(successes: int, more: int, confidence: float) -> None:
    trials = successes + more
    exact = binomtest(successes, trials).proportion_ci(confidence, method="exact")
    assert clopper_pearson(successes, trials, confidence) == pytest.approx(
        (exact.low, exact.high), abs=1e-9
    )


@given(st.integers(0, 200), st.integers(0, 300))
def test_bounds_are_monotone_in_the_counts(found: int, false: int) -> None:
    for bound in BOUNDS:
        if found / 200 > false / 300:  # the attack points the right way
            better = bound(**verdicts(min(found + 1, 200), false)).epsilon
            worse = bound(**verdicts(found, min(false + 1, 300))).epsilon
            assert worse <= bound(**verdicts(found, false)).epsilon <= better


@given(st.integers(0, 200), st.integers(0, 300))
def test_more_confidence_proves_less(found: int, false: int) -> None:
    for bound in BOUNDS:
        bold = bound(**verdicts(found, false), confidence=0.8).epsilon
        assert bound(**verdicts(found, false), confidence=0.99).epsilon <= bold


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(("found", "false"), [(0, 0), (200, 300), (100, 150)])
def test_chance_proves_nothing(bound: Any, found: int, false: int) -> None:
    assert bound(**verdicts(found, false)).epsilon == 0


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": 0, "true_positives": 0}, "Expected members >= 1, got 0."),
        ({"non_members": 0, "false_positives": 0}, "Expected non-members >= 1, got 0."),
        ({"true_positives": 201}, r"Expected true positives from 0 to members \(200\), got 201."),
        ({"false_positives": -1}, r"Expected false positives from 0 to non-members \(300\), got"),
        ({"delta": -0.1}, r"Expected delta in \[0, 1\), got -0.1."),
        ({"confidence": 1.0}, "Expected a confidence between 0 and 1"),
    ],
)
def test_bad_input(bound: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{message}"):
        bound(**(verdicts(100, 10) | change))


def test_a_gaussian_has_no_pure_epsilon() -> None:
    with pytest.raises(InvalidInput, match="Expected delta > 0"):
        gaussian_bound(**verdicts(100, 10, delta=0.0))


def test_bad_trials() -> None:
    with pytest.raises(InvalidInput, match=r"Expected trials >= 1, got 0\."):
        clopper_pearson(0, 0)
