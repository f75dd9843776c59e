import numpy as np
import pytest

from sottovoce.audit._checks import Flags, Scores
from sottovoce.audit.bounds import one_run_bound, one_run_gaussian_bound
from sottovoce.audit.canaries import Family, fair_coins, one_run_audit
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants import gaussian
from sottovoce.privacy.noise import NoiseSource


def game(mu: float, canaries: int = 5000, seed: int = 0) -> tuple[Scores, Flags]:
    """The scores of canaries in a Gaussian mechanism with this mu."""
    rng = np.random.default_rng(seed)
    included = rng.random(canaries) < 0.5
    return mu * included + rng.normal(size=canaries), included


def test_guesses_are_counted_by_hand() -> None:
    scores = [5.0, 1.0, 4.0, 2.0, 3.0]
    included = np.array([True, True, False, False, True])
    # Of four guesses the highest two (5, 4) are called in, the lowest two (1, 2) out: 2 right.
    bound = one_run_audit(scores, included, delta=0.0, guesses=4)
    assert bound == one_run_bound(canaries=5, guesses=4, correct=2, delta=0.0)
    # An odd guess more is one more "in": 5, 4, 3.
    assert "3 of 5 guesses" in one_run_audit(scores, included, delta=0.0, guesses=5).evidence


def test_a_tenth_is_guessed_by_default() -> None:
    scores, included = game(2.0)
    assert "of 500 guesses about 5000" in one_run_audit(scores, included, delta=1e-5).evidence


def test_several_numbers_of_guesses_share_the_risk() -> None:
    scores, included = game(2.0)
    several = one_run_audit(scores, included, delta=1e-5, guesses=[100, 500, 2000])
    alone = [one_run_audit(scores, included, delta=1e-5, guesses=n) for n in (100, 500, 2000)]
    careful = [
        one_run_audit(scores, included, delta=1e-5, guesses=n, confidence=1 - 0.05 / 3)
        for n in (100, 500, 2000)
    ]
    assert several.epsilon == pytest.approx(max(bound.epsilon for bound in careful))
    assert several.epsilon < max(bound.epsilon for bound in alone)
    assert several.confidence == 0.95
    assert "the best of 3 numbers of guesses at equal risk" in several.evidence


def test_the_gaussian_family_proves_more() -> None:
    scores, included = game(2.0)
    found = one_run_audit(scores, included, delta=1e-5, family=Family.GAUSSIAN)
    assert found.mu is not None
    assert found.epsilon > one_run_audit(scores, included, delta=1e-5).epsilon
    assert 1.2 < found.mu < 2.0
    assert type(found) is type(
        one_run_gaussian_bound(canaries=10, guesses=5, correct=5, delta=1e-5)
    )


@pytest.mark.parametrize("family", list(Family))
def test_a_true_guarantee_is_contradicted_no_oftener_than_promised(family: Family) -> None:
    """At 80 % confidence at most 20 of 100 audits of a Gaussian may err; the bounds are not tight,
    so far fewer do. Guessing after looking (the mutation) errs nearly always."""
    epsilon = gaussian.epsilon_of(0.5, 1e-5)
    wrong = 0
    for seed in range(100):
        scores, included = game(0.5, canaries=400, seed=seed)
        bound = one_run_audit(scores, included, delta=1e-5, confidence=0.8, family=family)
        wrong += bound.epsilon > epsilon
    assert wrong <= 20
    peeking = one_run_bound(canaries=400, guesses=40, correct=40, delta=1e-5, confidence=0.8)
    assert peeking.epsilon > epsilon


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("first", [True, False])
def test_equal_scores_prove_nothing_whatever_the_order_of_the_canaries(
    family: Family, first: bool
) -> None:
    included = (np.arange(2000) < 1000) == first
    source = NoiseSource.seeded(1)
    constant = one_run_audit(np.zeros(2000), included, delta=1e-5, family=family, source=source)
    assert constant.epsilon == 0


def test_infinite_scores_are_scores() -> None:
    included = fair_coins(100, NoiseSource.seeded(1))
    scores = np.where(included, np.inf, -np.inf)
    assert one_run_audit(scores, included, delta=0.0).evidence.startswith("10 of 10")


def test_bad_input() -> None:
    scores, included = game(1.0, canaries=50)
    with pytest.raises(InvalidInput, match="Expected included as booleans of shape"):
        one_run_audit(scores, included[:-1], delta=1e-5)
    with pytest.raises(InvalidInput, match=r"Expected guesses from 0 to canaries \(50\), got 51"):
        one_run_audit(scores, included, delta=1e-5, guesses=51)
    with pytest.raises(InvalidInput, match="Expected guesses >= 1, got 0"):
        one_run_audit(scores, included, delta=1e-5, guesses=0)
    with pytest.raises(InvalidInput, match="at least one number of guesses, got none"):
        one_run_audit(scores, included, delta=1e-5, guesses=[])
    with pytest.raises(InvalidInput, match="Expected a confidence"):
        one_run_audit(scores, included, delta=1e-5, confidence=0.0)
    with pytest.raises(InvalidInput, match="without NaN"):
        one_run_audit(scores * np.nan, included, delta=1e-5)
