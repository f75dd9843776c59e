"""The bounds against values computed with mpmath and, independently, by jax-privacy."""

from typing import Any

import pytest

from sottovoce.audit.bounds import (
    clopper_pearson,
    clopper_pearson_bound,
    gaussian_bound,
    one_run_bound,
    one_run_gaussian_bound,
)

# canaries, guesses, correct, delta, epsilon at 95 % confidence
ONE_RUN = [
    (100, 100, 75, 0.0, 0.702213930949506),
    (1000, 100, 90, 1e-5, 1.6261434806957262),
    (1000, 200, 180, 5e-4, 1.5997329448078192),
    (1000, 50, 50, 1e-5, 2.7562194844522776),
    (500, 35, 23, 1e-5, 0.014548720200576275),
    (200, 40, 20, 1e-5, 0.0),
]
ONE_RUN_GAUSSIAN = [
    (1000, 100, 90, 1e-5, 2.4564048929605633),
    (1000, 200, 180, 5e-4, 2.173673322540708),
]
# true positives, members, false positives, non-members; then the two rates, epsilon, mu, epsilon
COUNTS = [
    ((450, 500, 20, 500), 0.1297090856622031, 0.061102609388244696, 2.6562614774634157,
     2.6733507590987013, 14.380132164725627),
    ((100, 100, 0, 100), 0.03621669264517642, 0.03621669264517642, 3.2813359732686576,
     3.5927690246601296, 21.120338661825002),
    ((510, 1000, 490, 1000), 0.5214741586781123, 0.5214741586781123, 0.0, 0.0, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("canaries", "guesses", "correct", "delta", "epsilon"), ONE_RUN)
def test_one_run(canaries: int, guesses: int, correct: int, delta: float, epsilon: float) -> None:
    bound = one_run_bound(canaries=canaries, guesses=guesses, correct=correct, delta=delta)
    assert bound.epsilon == pytest.approx(epsilon, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize(("canaries", "guesses", "correct", "delta", "epsilon"), ONE_RUN_GAUSSIAN)
def test_one_run_of_a_gaussian(
    canaries: int, guesses: int, correct: int, delta: float, epsilon: float
) -> None:
    bound = one_run_gaussian_bound(canaries=canaries, guesses=guesses, correct=correct, delta=delta)
    assert bound.epsilon == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(("counts", "missed", "false", "epsilon", "mu", "gaussian"), COUNTS)
def test_counts(
    counts: tuple[int, int, int, int],
    missed: float,
    false: float,
    epsilon: float,
    mu: float,
    gaussian: float,
) -> None:
    names = ("true_positives", "members", "false_positives", "non_members")
    given: dict[str, Any] = dict(zip(names, counts, strict=True)) | {"delta": 1e-5}
    found, members, false_found, non_members = counts
    assert clopper_pearson(members - found, members).high == pytest.approx(missed, rel=1e-12)
    assert clopper_pearson(false_found, non_members).high == pytest.approx(false, rel=1e-12)
    assert clopper_pearson_bound(**given).epsilon == pytest.approx(epsilon, rel=1e-12)
    assert gaussian_bound(**given).mu == pytest.approx(mu, rel=1e-12)
    assert gaussian_bound(**given).epsilon == pytest.approx(gaussian, rel=1e-10)


def test_the_published_step_is_falsified() -> None:
    """100,000 trials of eDP-SGD as printed (8 workers, z = 1): claimed 3.35, in truth 33.8."""
    given: dict[str, Any] = {
        "true_positives": 99_774, "members": 100_000, "false_positives": 224,
        "non_members": 100_000, "delta": 5e-4,
    }  # fmt: skip
    assert clopper_pearson_bound(**given).epsilon == pytest.approx(5.967427395138068, rel=1e-10)
    assert gaussian_bound(**given).mu == pytest.approx(5.597868713287519, rel=1e-10)
    assert gaussian_bound(**given).epsilon == pytest.approx(33.304371181320974, rel=1e-10)
