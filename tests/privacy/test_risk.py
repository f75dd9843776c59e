"""Trade-off curves and bounds on attacks, against closed forms and against riskcal."""

import math

import pytest
from scipy import stats

from sottovoce.errors import CannotAccount, InvalidInput
from sottovoce.privacy.accounting import Entry, account
from sottovoce.privacy.calibrate import noise_multiplier_for_risk, success
from sottovoce.privacy.facts import BoundedRelease, NoisySum, Sampling, Unprotected
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.recipes import Method, TrainingRecipe
from sottovoce.privacy.risk import Tradeoff, certainty, tradeoff

ADD = Relation.ADD_OR_REMOVE
ALPHAS = (0.001, 0.01, 0.1, 0.3, 0.5)


def gaussian(noise: float, times: int = 1) -> list[Entry]:
    fact = NoisySum(unit=Unit.USER, clip_norm=1, noise_stds=(noise,), sampling=Sampling.EVERYONE)
    return [Entry(fact, times)]


def exact_miss(mu: float, alpha: float) -> float:
    return float(stats.norm.cdf(stats.norm.ppf(1 - alpha) - mu))


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_the_curve_of_gaussian_noise_is_the_one_in_closed_form(mu: float) -> None:
    curve = tradeoff(gaussian(2 / mu, 4), relation=ADD)
    assert curve.mu == pytest.approx(mu)
    for alpha in ALPHAS:
        found, exact = curve.miss(alpha), exact_miss(mu, alpha)
        assert exact - 0.01 <= found <= exact + 1e-9  # a bound, and a tight one
    assert curve.advantage == pytest.approx(2 * stats.norm.cdf(mu / 2) - 1, abs=1e-6)
    # The twin: another mu is told apart.
    assert abs(curve.miss(0.1) - exact_miss(1.3 * mu, 0.1)) > 0.01


def test_against_riskcal() -> None:
    analysis = pytest.importorskip("riskcal.analysis", reason="riskcal is not installed")
    curve = tradeoff(gaussian(1.0), relation=ADD)
    assert curve.advantage == pytest.approx(float(analysis.get_advantage_for_mu(1.0)), abs=1e-4)
    for alpha in ALPHAS:
        known = float(analysis.get_beta_for_mu(1.0, alpha))
        assert known - 0.01 <= curve.miss(alpha) <= known + 1e-6


def test_sampled_steps_have_a_curve_through_their_guarantee() -> None:
    fact = NoisySum(unit=Unit.USER, clip_norm=1, noise_stds=(1.0,), sampling_rate=0.01)
    entries = [Entry(fact, 200)]
    curve = tradeoff(entries, relation=ADD)
    assert curve.mu is None
    stated = account(entries, unit=Unit.USER, relation=ADD, delta=1e-3)
    for epsilon, delta in zip(curve.epsilons, curve.deltas, strict=True):
        if epsilon >= stated.epsilon * 1.01:
            assert delta <= 1e-3
        if epsilon <= stated.epsilon * 0.95:
            assert delta > 1e-3
    assert curve.membership < (1 + math.tanh(stated.epsilon / 2)) / 2 + 1e-3


def test_pure_releases_are_bounded_by_their_epsilon() -> None:
    fact = BoundedRelease(unit=Unit.USER, mechanism="histogram", epsilon=1.0)
    curve = tradeoff([Entry(fact)], relation=ADD)
    assert curve.membership == pytest.approx(certainty(1.0), abs=1e-3)
    assert curve.success(1e-3) <= math.e * 1e-3 * 1.1
    assert curve.success(1e-3) >= 1e-3


def test_what_has_no_guarantee_has_no_curve() -> None:
    with pytest.raises(CannotAccount):
        tradeoff([Entry(Unprotected(unit=Unit.USER, reason="no noise"))], relation=ADD)


def test_noise_for_a_target_risk() -> None:
    recipe = TrainingRecipe(method=Method.DP_SGD, noise_multiplier=1.0, epochs=1,
                            steps_per_epoch=10, sampling_rate=1.0, delta=1e-6)  # fmt: skip
    for prior in (None, 0.01):
        risk = 0.6 if prior is None else 0.05
        made = noise_multiplier_for_risk(recipe, risk, prior=prior)
        assert success(made, prior=prior) <= risk
        less = noise_multiplier_for_risk(recipe, risk * 1.1, prior=prior)
        assert less.noise_multiplier < made.noise_multiplier
    for wrong in (0.5, 1.0, 0.2):
        with pytest.raises(InvalidInput):
            noise_multiplier_for_risk(recipe, wrong)


def test_a_useless_curve_bounds_nothing() -> None:
    assert Tradeoff((0.0,), (1.0,)).success(0.1) == 1.0
    assert Tradeoff((0.0,), (0.0,)).membership == 0.5
