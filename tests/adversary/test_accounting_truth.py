"""Numbers that an accountant could print and that are not true.

The oracle composes the losses of the sampled Gaussian by sums of positive numbers alone. It is
slow, but no digit is lost however small delta is: a Fourier transform loses all below 1e-16.
"""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr
from scipy.stats import norm

from sottovoce.errors import InvalidInput
from sottovoce.privacy import calibrate
from sottovoce.privacy.accountants import gaussian, pld, rdp, tokens
from sottovoce.privacy.accountants.losses import (
    ApproximateLoss,
    GaussianLoss,
    LaplaceLoss,
    PoissonGaussianLoss,
    PureLoss,
    TokenLoss,
)
from sottovoce.privacy.accounting import Entry, account, several_runs, tightest
from sottovoce.privacy.facts import MetricRelease, ReplacedTokens, Unprotected
from sottovoce.privacy.guarantee import Guarantee, Relation, Unit, default_delta, rounded_up
from sottovoce.privacy.recipes import Method, TrainingRecipe

ADD, REPLACE = Relation.ADD_OR_REMOVE, Relation.REPLACE_ONE


def true_delta(rate: float, noise: float, steps: int, epsilon: float) -> float:
    """Delta of removing a unit from so many sampled Gaussian steps."""
    width = epsilon / 6000
    lowest = math.log1p(-rate)
    farthest = np.logaddexp(lowest, math.log(rate) + (1 + 26 * noise) / (2 * noise**2))
    first = math.floor(lowest / width)
    edges = width * (np.arange(first, math.ceil(farthest / width) + 2) - 0.5)
    places = np.full(len(edges), -np.inf)
    told = edges > lowest
    places[told] = noise**2 * (np.log(np.expm1(edges[told]) + rate) - math.log(rate)) + 0.5
    above = (1 - rate) * ndtr(-places / noise) + rate * ndtr((1 - places) / noise)
    power, whole = (np.maximum(above[:-1] - above[1:], 0), first), (np.ones(1), 0)
    while steps:
        if steps % 2:
            whole = _trimmed(np.convolve(whole[0], power[0]), whole[1] + power[1])
        power = _trimmed(np.convolve(power[0], power[0]), 2 * power[1])
        steps //= 2
    losses = width * (whole[1] + np.arange(len(whole[0])))
    larger = losses > epsilon
    return float(np.sum(whole[0][larger] * -np.expm1(epsilon - losses[larger])))


def _trimmed(masses: NDArray[np.float64], first: int) -> tuple[NDArray[np.float64], int]:
    kept = np.flatnonzero((masses.cumsum() > 1e-22) & (masses[::-1].cumsum()[::-1] > 1e-22))
    return masses[kept[0] : kept[-1] + 1], first + int(kept[0])


TINY = [(0.01, 1.0, 1000, 1e-12), (0.01, 2.0, 10_000, 1e-12), (0.1, 4.0, 1000, 1e-14)]


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta"),
    [*TINY, (0.1, 4.0, 1000, 1e-9), (0.5, 10.0, 1000, 1e-15)],
)
def test_no_epsilon_is_below_the_truth_however_small_delta_is(
    rate: float, noise: float, steps: int, delta: float
) -> None:
    epsilon, _ = tightest([(PoissonGaussianLoss(rate, noise), steps)], delta, ADD)
    # Rounding to a grid widens the oracle a little.
    assert true_delta(rate, noise, steps, epsilon) <= 1.003 * delta
    assert true_delta(rate, noise, steps, 0.8 * epsilon) > delta  # and not far above it


@pytest.mark.parametrize(("rate", "noise", "steps", "delta"), TINY[2:])
def test_twin_a_fourier_transform_that_is_trusted_prints_too_little(
    rate: float, noise: float, steps: int, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pld, "is_precise", lambda *_: True)
    monkeypatch.setattr(pld, "_ROUNDING_ERROR", 0.0)
    epsilon = pld.epsilon_of([(PoissonGaussianLoss(rate, noise), steps)], delta)
    assert true_delta(rate, noise, steps, epsilon) > 1.3 * delta


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_epsilon_grows_with_steps_and_rate_and_falls_with_noise_and_delta(
    relation: Relation,
) -> None:
    deltas = [10.0**-exponent for exponent in range(9, 16)]
    for rate, noise, steps in [(0.01, 1.0, 100), (0.001, 0.8, 10_000), (0.01, 4.0, 1_000_000)]:

        def epsilon(
            delta: float, rate: float = rate, noise: float = noise, steps: int = steps
        ) -> float:
            return tightest([(PoissonGaussianLoss(rate, noise), steps)], delta, relation)[0]

        # The accountants that take turns differ by less than this.
        found = [epsilon(delta) for delta in deltas]
        assert all(a <= b * (1 + 1e-4) for a, b in itertools.pairwise(found))
        for delta, least in zip(deltas, found, strict=True):
            assert epsilon(delta, steps=2 * steps) >= least
            assert epsilon(delta, rate=2 * rate) >= least
            assert epsilon(delta, noise=noise / 2) >= least


@pytest.mark.parametrize("delta", [1e-9, 1e-12, 1e-15])
def test_a_sample_of_everybody_is_the_gaussian_mechanism(delta: float) -> None:
    exact = gaussian.epsilon_of(math.sqrt(100) / 5, delta)
    assert tightest([(PoissonGaussianLoss(1.0, 5.0), 100)], delta, ADD)[0] >= exact


def test_renyi_divergence_of_replacing_is_never_below_the_integral() -> None:
    for rate, noise in itertools.product((0.01, 0.5, 0.9), (0.5, 1.0, 5.0)):
        x = np.linspace(-25 * noise - 5, 25 * noise + 5, 100_001)
        stays = math.log1p(-rate) + norm.logpdf(x, 0, noise)
        one = np.logaddexp(stays, math.log(rate) + norm.logpdf(x, 1, noise))
        other = np.logaddexp(stays, math.log(rate) + norm.logpdf(x, -1, noise))
        for order in (2.0, 5.0, 32.0):
            exact = (logsumexp(order * one + (1 - order) * other) + math.log(x[1] - x[0])) / (
                order - 1
            )
            loss = PoissonGaussianLoss(rate, noise)
            assert rdp.divergences(loss, REPLACE, np.array([order]))[0] >= exact - 1e-12


def test_renyi_divergence_of_many_tiny_laplace_releases_is_not_rounded_to_nothing() -> None:
    """It came out negative: ten to the fifteen releases were cheaper than none."""
    assert (rdp.divergences(LaplaceLoss(1e-9)) > 0).all()
    # Losses of +-e with probabilities e^+-(e/2) are the least that pure e-DP can be asked to be;
    # together they are a Gaussian with mu = e sqrt(n), for Laplace noise of half the variance.
    epsilon, _ = tightest([(LaplaceLoss(1e-9), 10**15)], 1e-11, ADD)
    assert epsilon > gaussian.epsilon_of(1e-9 * math.sqrt(10**15), 1e-11)


def test_twin_without_the_rounding_the_divergence_is_negative() -> None:
    orders, epsilon = rdp.ORDERS, 1e-9
    twice = 2 * orders - 1
    sides = np.log(orders / twice) + (orders - 1) * epsilon
    between = np.log((orders - 1) / twice) - orders * epsilon
    assert (np.logaddexp(sides, between) < 0).any()


@pytest.mark.parametrize("mu", [1e-9, 1e-12, 1e-15, 1e-17, 1e-60])
def test_tiny_gaussian_releases_at_a_tinier_delta_are_not_free(mu: float) -> None:
    """They were printed as epsilon = 0, where 20 mu is true."""
    assert 15 * mu < gaussian.epsilon_of(mu, 1e-100) < 25 * mu
    assert gaussian.epsilon_of(mu, 1e-6) == 0.0


def test_a_metric_epsilon_holds_at_every_distance() -> None:
    """What composition saves at distance 1 it does not save at distance 10: 14.2; 18.5."""

    def stated(epsilon: float) -> float:
        release = MetricRelease(unit=Unit.TOKEN, mechanism="exponential", epsilon=epsilon)
        entries = [Entry(release, 1000)]
        return account(entries, unit=Unit.TOKEN, relation=REPLACE, delta=1e-5).epsilon

    # The same releases, seen by somebody who measures distances in tenths.
    at_distance_ten, _ = tightest([(PureLoss(0.1), 1000)], 1e-5, REPLACE)
    assert 10 * stated(0.01) >= at_distance_ten
    # The twin: composed at delta as if it were a plain epsilon.
    composed, _ = tightest([(PureLoss(0.01), 1000)], 1e-5, REPLACE)
    assert 10 * composed < at_distance_ten


def test_a_metric_ledger_can_be_withdrawn() -> None:
    facts = [
        MetricRelease(unit=Unit.TOKEN, mechanism="exponential", epsilon=1.0),
        Unprotected(unit=Unit.TOKEN, reason="it was not what was paid for"),
    ]
    entries = [Entry(fact) for fact in facts]
    stated = account(entries, unit=Unit.TOKEN, relation=REPLACE, delta=1e-5)
    assert not stated.holds
    assert stated.reasons == ("it was not what was paid for",)


def test_mixed_losses_cost_at_least_each_part_and_at_most_their_sum() -> None:
    parts: list[tuple[Any, int]] = [
        (LaplaceLoss(0.1), 5),
        (GaussianLoss(0.3), 2),
        (TokenLoss(0.99, 0.01), 3),
        (PureLoss(0.05), 4),
    ]
    last = 0.0
    for exponent in range(3, 16):
        delta = 10.0**-exponent
        epsilon, _ = tightest(parts, delta, REPLACE)
        alone = [tightest([part], delta, REPLACE)[0] for part in parts]
        shared = [tightest([part], delta / len(parts), REPLACE)[0] for part in parts]
        assert max(alone) <= epsilon * (1 + 1e-4)
        assert last <= epsilon * (1 + 1e-4)
        stated = [*parts, (ApproximateLoss(0.1, delta / 10), 2)]
        assert tightest(stated, delta, REPLACE)[0] >= epsilon + 0.2
        assert tightest(stated, delta / 6, REPLACE)[0] == math.inf
        assert epsilon <= sum(shared) * 1.3  # Renyi accounting is not tight
        last = epsilon


@pytest.mark.parametrize("order", [1.5, 2.0, 10.0])
@pytest.mark.parametrize(("p", "pi"), [(0.9, 0.1), (0.5, 0.5), (0.999999, 1e-6)])
def test_renyi_divergence_of_a_token_is_that_of_its_three_outputs(
    p: float, pi: float, order: float
) -> None:
    own, other, rest = 1 - p + p * pi, p * pi, p * (1 - 2 * pi)
    moment = own**order * other ** (1 - order) + other**order * own ** (1 - order) + rest
    found = rdp.divergences(TokenLoss(p, pi), REPLACE, np.array([order]))[0]
    assert found >= math.log(moment) / (order - 1) - 1e-13


def replaced(count: int, p: float = 0.99) -> ReplacedTokens:
    return ReplacedTokens(
        unit=Unit.USER, replace_probability=p, smallest_probability=0.01, tokens=count
    )


def test_a_user_with_a_million_tokens_is_accounted_and_not_waited_for() -> None:
    """It took hours, or all memory: and whoever cannot wait states the number of one token."""
    for facts in (
        [replaced(10**6)],
        [replaced(2**53)],
        [replaced(1000, p) for p in (0.9, 0.91, 0.92)],
    ):
        entries = [Entry(fact) for fact in facts]
        stated = account(entries, unit=Unit.USER, relation=REPLACE, delta=1e-6)
        assert stated.holds
        fewer = [Entry(replaced(100, fact.replace_probability)) for fact in facts]
        least = account(fewer, unit=Unit.USER, relation=REPLACE, delta=1e-6)
        assert stated.epsilon > least.epsilon
    with pytest.raises(InvalidInput, match="tokens"):
        replaced(10**400)


def test_where_tokens_are_too_many_to_convolve_the_bound_is_above_the_exact_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = [(TokenLoss(0.99, 0.01), 2000)]
    exact, _ = tightest(many, 1e-6, REPLACE)
    monkeypatch.setattr(tokens, "are_few", lambda _: False)
    for delta, least in ((1e-6, exact), (1e-15, tokens.epsilon_of(many, 1e-15))):
        assert tightest(many, delta, REPLACE)[0] >= least


@pytest.mark.parametrize(
    ("value", "digits"), [(2.9371, 3), (1.2345641e-5, 6), (41177.4, 3), (1e-320, 3), (9.9999e7, 3)]
)
def test_nothing_is_rounded_below_what_it_is(value: float, digits: int) -> None:
    assert float(rounded_up(value, digits)) >= value


def test_the_delta_of_a_sentence_is_not_rounded_down() -> None:
    guarantee = Guarantee(
        epsilon=1.0, delta=1.23456409e-5, unit=Unit.USER, relation=ADD, accountant="PLD"
    )
    assert f"{guarantee.delta:g}" == "1.23456e-05"  # the twin: less than it is
    assert "1.23457e-05" in str(guarantee)


@pytest.mark.parametrize("population", [0, -1, True, "100", 1.5, math.nan, 10**400, None])
def test_a_population_is_a_number_of_people(population: Any) -> None:
    if population is None:
        assert account([], unit=Unit.USER, relation=ADD, delta=0.0, population=None).holds
        return
    with pytest.raises(InvalidInput, match="population"):
        account([], unit=Unit.USER, relation=ADD, delta=1e-6, population=population)
    with pytest.raises(InvalidInput, match="population"):
        default_delta(population)


@pytest.mark.parametrize("delta", [-1e-9, 1, 1.5, math.nan, math.inf, "0.1", True, 1e-300, None])
def test_a_delta_is_a_probability_that_can_be_computed_with(delta: Any) -> None:
    with pytest.raises(InvalidInput, match="delta"):
        account([], unit=Unit.USER, relation=ADD, delta=delta)


def test_a_delta_too_large_says_why_in_good_english() -> None:
    for unit in Unit:
        stated = account([], unit=unit, relation=ADD, delta=1e-3, population=101)
        assert not stated.holds
        assert f"the data of one {unit} unchanged" in stated.reasons[0]
        assert account([], unit=unit, relation=ADD, delta=1e-3, population=100).holds


def test_what_is_no_entry_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ledger entries"):
        several_runs([["epoch 0"]])  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="ledger entries"):
        account(["epoch 0"], unit=Unit.USER, relation=ADD, delta=1e-6)  # type: ignore[list-item]


def test_a_fraction_is_a_number_and_its_refusal_can_be_printed() -> None:
    with pytest.raises(InvalidInput, match=r"got -0\.5"):
        MetricRelease(unit=Unit.TOKEN, mechanism="m", epsilon=Fraction(-1, 2))  # type: ignore[arg-type]


RECIPE = TrainingRecipe(
    method=Method.DP_SGD, noise_multiplier=1.0, epochs=1, steps_per_epoch=10,
    sampling_rate=0.01, delta=1e-6,
)  # fmt: skip


@pytest.mark.parametrize("target", [1e-9, 1e-4, 1e6])
def test_extreme_targets_are_reached_from_below(target: float) -> None:
    """At 1e-9 the grid of losses took forty gigabytes."""
    assert calibrate.noise_multiplier(RECIPE, target).guarantee().epsilon <= target


@pytest.mark.parametrize("target", [0, -1, math.nan, math.inf, "3", True])
def test_invalid_targets_are_refused(target: Any) -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        calibrate.noise_multiplier(RECIPE, target)
