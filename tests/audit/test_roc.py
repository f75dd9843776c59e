import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sottovoce.audit.bounds import clopper_pearson
from sottovoce.audit.roc import auc, auc_interval, curve, rate_at
from sottovoce.errors import InvalidInput

values = st.lists(st.integers(-4, 4), min_size=1, max_size=12)


def wins(members: list[int], non_members: list[int]) -> NDArray[np.float64]:
    """1 where a member is above a non-member, one half where they tie."""
    difference = np.subtract.outer(members, non_members)
    shares: NDArray[np.float64] = (np.sign(difference) + 1) / 2
    return shares


@given(values, values)
def test_auc_is_the_share_of_pairs_won(members: list[int], non_members: list[int]) -> None:
    assert auc(members, non_members) == pytest.approx(wins(members, non_members).mean())
    assert auc(non_members, members) == pytest.approx(1 - auc(members, non_members))


@given(
    st.lists(st.integers(-4, 4), min_size=3, max_size=12),
    st.lists(st.integers(-4, 4), min_size=3, max_size=12),
)
def test_the_interval_is_delongs(members: list[int], non_members: list[int]) -> None:
    """Variance by rows and columns of the table of wins, as in DeLong et al. 1988."""
    table = wins(members, non_members)
    area = table.mean()
    variance = table.mean(axis=1).var(ddof=1) / len(members)
    variance += table.mean(axis=0).var(ddof=1) / len(non_members)
    low, high = auc_interval(members, non_members)
    assert 0 <= low <= area + 1e-12
    assert area - 1e-12 <= high <= 1
    if variance > 1e-12:
        reach = 1.959964 * np.sqrt(variance) / (area * (1 - area))
        logits = np.log([low / (1 - low), high / (1 - high)])
        assert logits == pytest.approx(
            np.log(area / (1 - area)) + np.array([-reach, reach]), abs=1e-4
        )


def test_the_interval_covers_as_often_as_it_says() -> None:
    """500 samples of 60 + 60 from normals one apart: 0.76 is their true AUC.

    At 90 % coverage the count is binomial with standard deviation 6.7; four of them are allowed.
    """
    rng = np.random.default_rng(5)
    true = 0.7602499389065233  # Phi(1 / sqrt 2)
    covered = 0
    for _ in range(500):
        low, high = auc_interval(rng.normal(1, 1, 60), rng.normal(0, 1, 60), 0.9)
        covered += low <= true <= high
    assert abs(covered - 450) < 27


def test_perfect_separation_is_not_certainty() -> None:
    assert auc_interval([2, 3, 4], [0, 1, -1]) == clopper_pearson(3, 3)
    assert auc_interval([0], [1]) == clopper_pearson(0, 1)
    low, high = auc_interval([1.0] * 40, [1.0] * 30)
    assert low < 0.5 < high


def test_a_member_must_pass_the_threshold_strictly() -> None:
    """A model that gives one score to everybody finds nobody."""
    assert rate_at([1.0] * 50, [1.0] * 50, 0.01).true_positive_rate == 0


@given(values, values, st.floats(0.001, 1))
def test_the_rate_keeps_to_the_allowed_false_positives(
    members: list[int], non_members: list[int], allowed: float
) -> None:
    found = rate_at(members, non_members, allowed).true_positive_rate
    by_hand = [
        np.mean(np.array(members) > t)
        for t in {*members, *non_members, -9}
        if np.mean(np.array(non_members) > t) <= allowed + 1e-12
    ]
    assert found == max(by_hand) or allowed * len(non_members) >= len(non_members) - 1


def test_the_rate_has_an_exact_interval_and_says_what_it_can_resolve() -> None:
    scores = np.arange(1000.0)
    few = rate_at(scores, scores[:999], 0.001)
    assert not few.resolved
    assert few.interval == clopper_pearson(1, 1000)
    enough = rate_at(scores, scores, 0.001)
    assert enough.resolved
    assert enough.true_positive_rate == 0.001
    assert rate_at(scores, scores, 0.01).true_positive_rate == 0.01
    assert rate_at(scores[:100], scores[:300], 0.01, 0.9).interval == clopper_pearson(0, 100, 0.9)


@given(values, values)
def test_the_curve_rises_from_corner_to_corner(members: list[int], non_members: list[int]) -> None:
    false, true = curve(members, non_members)
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert list(false) == sorted(false)
    assert list(true) == sorted(true)
    assert np.trapezoid(true, false) == pytest.approx(auc(members, non_members))


def test_a_long_curve_is_thinned_on_a_logarithmic_axis() -> None:
    rng = np.random.default_rng(1)
    members, non_members = rng.normal(1, 1, 20_000), rng.normal(0, 1, 20_000)
    false, true = curve(members, non_members, points=50)
    assert len(false) <= 52
    assert sum(rate < 0.01 for rate in false) >= 20
    for x, y in zip(false, true, strict=True):
        if x > 0:
            # A thinned point is a point of the curve: no better than the best at that rate.
            assert y <= rate_at(members, non_members, x).true_positive_rate + 1e-12


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "Expected the members' scores as a vector of at least one number"),
        ([[1.0]], "Expected the members' scores as a vector"),
        ([float("nan"), 1.0], "Expected the members' scores without NaN, got 1 NaN among 2"),
    ],
)
def test_bad_scores(members: object, message: str) -> None:
    for function in (auc, auc_interval, curve):
        with pytest.raises(InvalidInput, match=message):
            function(members, [1.0])  # type: ignore[arg-type]


def test_bad_rates_and_confidences() -> None:
    with pytest.raises(InvalidInput, match=r"Expected false_positive_rate in \(0, 1\], got 0"):
        rate_at([1.0], [0.0], 0.0)
    with pytest.raises(InvalidInput, match="Expected a confidence"):
        auc_interval([1.0], [0.0], 2.0)
    with pytest.raises(InvalidInput, match="Expected points >= 1, got 0"):
        curve([1.0], [0.0], points=0)
