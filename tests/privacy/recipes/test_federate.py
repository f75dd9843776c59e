"""What recipes for federated counts claim and guarantee."""

import math
from dataclasses import replace

import pytest

from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants import gaussian
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.guarantee import Unit
from sottovoce.privacy.recipes import Cap, FederateRecipe, Kernel, Release
from sottovoce.privacy.recipes.federate import integer_weights, kernel_weights

COUNTS = FederateRecipe(noise=Noise.LAPLACE, scale=2.0, max_words=15, nbest=20, sigma=1.0)
USER = replace(COUNTS, unit=Unit.USER, mass_cap=500.0, rounds=10)


@pytest.mark.parametrize(
    ("nbest", "sigma", "mass"),
    [(3, 1, 1.741866), (20, 1, 1.753314), (20, 2, 3.006628), (20, 5, 6.765984), (100, 5, 6.766571),
     (100, 10, 13.033141), (100, 0.1, 1.0)],
)  # fmt: skip
def test_kernel_mass(nbest: int, sigma: float, mass: float) -> None:
    assert sum(kernel_weights(nbest, sigma)) == pytest.approx(mass, abs=1e-6)
    assert sum(kernel_weights(nbest, sigma, Kernel.NORMALISED)) == pytest.approx(1.0)


def test_integer_kernel() -> None:
    assert integer_weights(kernel_weights(5, 1.0)) == [64, 39, 9, 1, 0]


@pytest.mark.parametrize(
    ("words", "nbest", "sigma", "l1", "l2", "claimed_half", "ten_rounds"),
    [
        (1, 1, 1, 1.0, 1.0, 0.5, 5.0),
        (20, 20, 2, 60.132565, 13.44605, 30.066283, 300.662827),
        (30, 20, 5, 202.979515, 37.05882, 101.489758, 1014.897576),
    ],
)
def test_utterance_level(
    words: int,
    nbest: int,
    sigma: float,
    l1: float,
    l2: float,
    claimed_half: float,
    ten_rounds: float,
) -> None:
    recipe = replace(COUNTS, max_words=words, nbest=nbest, sigma=sigma)
    assert recipe.sensitivity() == pytest.approx(l1, abs=1e-6)
    normalised = replace(recipe, kernel=Kernel.NORMALISED)
    assert normalised.sensitivity() == pytest.approx(words)
    gaussian_recipe = replace(recipe, noise=Noise.GAUSSIAN, delta=1e-6)
    assert gaussian_recipe.sensitivity() == pytest.approx(l2, abs=1e-5)
    assert recipe.statement().claimed.epsilon == pytest.approx(0.5)
    assert recipe.guarantee().epsilon == pytest.approx(claimed_half, abs=1e-6)
    cumulative = replace(recipe, rounds=10, release=Release.CUMULATIVE)
    assert cumulative.guarantee().epsilon == pytest.approx(ten_rounds, abs=1e-5)
    increments = replace(recipe, rounds=10)
    assert increments.guarantee().epsilon == pytest.approx(claimed_half, abs=1e-6)


@pytest.mark.parametrize(
    ("mass", "rounds", "epsilon", "per_round", "lifetime", "cumulative_per_round"),
    [
        (100, 1, 1.0, 100.0, 100.0, 100.0),
        (500, 10, 2.0, 2500.0, 250.0, 13750.0),
        (1000, 50, 4.0, 12500.0, 250.0, 318750.0),
    ],
)
def test_user_level_laplace_scales(
    mass: float,
    rounds: int,
    epsilon: float,
    per_round: float,
    lifetime: float,
    cumulative_per_round: float,
) -> None:
    recipe = replace(USER, mass_cap=mass, rounds=rounds)

    def spent(scale: float, release: Release, cap: Cap) -> float:
        return replace(recipe, scale=scale, release=release, cap=cap).guarantee().epsilon

    assert spent(per_round, Release.INCREMENTS, Cap.PER_ROUND) == pytest.approx(epsilon)
    assert spent(lifetime, Release.INCREMENTS, Cap.LIFETIME) == pytest.approx(epsilon)
    assert spent(rounds * mass / epsilon, Release.CUMULATIVE, Cap.LIFETIME) == pytest.approx(
        epsilon
    )
    assert spent(cumulative_per_round, Release.CUMULATIVE, Cap.PER_ROUND) == pytest.approx(epsilon)


@pytest.mark.parametrize(
    ("mass", "word_cap", "rounds", "epsilon", "every_round", "lifetime"),
    [(100, 1, 1, 1.0, 53.499801, 53.499801), (500, 10, 10, 2.0, 608.247834, 192.344854)],
)
def test_user_level_gaussian_is_tighter_than_zcdp(
    mass: float, word_cap: float, rounds: int, epsilon: float, every_round: float, lifetime: float
) -> None:
    """The vectors' scales come from zCDP; the analytic Gaussian spends a little less on them."""
    recipe = replace(
        USER, noise=Noise.GAUSSIAN, mass_cap=mass, word_cap=word_cap, rounds=rounds, delta=1e-6
    )
    for cap, scale in ((Cap.PER_ROUND, every_round), (Cap.LIFETIME, lifetime)):
        spent = replace(recipe, cap=cap, scale=scale).guarantee().epsilon
        assert 0.7 * epsilon < spent <= epsilon
    mu = math.sqrt(word_cap * mass) / lifetime
    once = replace(recipe, cap=Cap.LIFETIME, scale=lifetime).guarantee()
    assert once.epsilon == pytest.approx(gaussian.epsilon_of(mu, 1e-6))


@pytest.mark.parametrize(("epsilon", "words"), [(1.0, 15), (0.5, 15)])
def test_discrete_laplace_counts_in_sixty_fourths(epsilon: float, words: int) -> None:
    recipe = replace(COUNTS, noise=Noise.DISCRETE_LAPLACE, max_words=words, nbest=5)
    assert recipe.sensitivity() == pytest.approx(words * (64 + 39 + 9 + 1) / 64)
    exact = replace(recipe, scale=recipe.sensitivity() / epsilon)
    assert exact.guarantee().epsilon == pytest.approx(epsilon)


def test_a_delta_makes_laplace_a_little_cheaper() -> None:
    cumulative = replace(COUNTS, max_words=1, nbest=1, scale=10.0, rounds=10)
    cumulative = replace(cumulative, release=Release.CUMULATIVE)
    assert cumulative.guarantee().epsilon == pytest.approx(1.0)
    at_delta = replace(cumulative, delta=1e-5).guarantee()
    assert at_delta.epsilon == pytest.approx(0.98996, abs=1e-3)
    assert at_delta.accountant == "PLD"


def test_feedback_is_an_assumption_of_increments() -> None:
    assert any("first pass" in text for text in COUNTS.guarantee().assumptions)


@pytest.mark.parametrize(
    ("recipe", "changes", "message"),
    [
        (COUNTS, {"scale": 0.0}, "Expected scale > 0"),
        (COUNTS, {"sigma": -1.0}, "Expected sigma > 0"),
        (COUNTS, {"noise": Noise.GAUSSIAN}, "Expected delta > 0 with Gaussian noise"),
        (COUNTS, {"unit": Unit.TOKEN}, "Expected the unit utterance or user"),
        (COUNTS, {"unit": Unit.USER}, "Expected a mass cap"),
        (COUNTS, {"mass_cap": 3.0}, "only with the unit user"),
        (COUNTS, {"rounds": 0}, "Expected rounds >= 1"),
        (USER, {"mass_cap": -1.0}, "Expected mass cap > 0"),
        (USER, {"word_cap": 0.0}, "Expected word cap > 0"),
    ],
)
def test_nonsense_is_refused(
    recipe: FederateRecipe, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(recipe, **changes)  # type: ignore[arg-type]


def test_a_rounded_kernel_is_taken_at_its_worst_length() -> None:
    """Rounding normalised weights to 1/64 can add up to more than 1 for some shorter list."""
    recipe = replace(COUNTS, noise=Noise.DISCRETE_LAPLACE, kernel=Kernel.NORMALISED, sigma=3.0)
    sums = [
        sum(integer_weights(kernel_weights(length, 3.0, Kernel.NORMALISED)))
        for length in range(1, recipe.nbest + 1)
    ]
    assert max(sums) > sums[-1]
    assert recipe.kernel_mass() == max(sums) / 64


@pytest.mark.parametrize("noise", list(Noise))
def test_the_smallest_numbers_get_a_verdict(noise: Noise) -> None:
    delta = 1e-5 if "gaussian" in noise else 0.0
    recipe = replace(COUNTS, noise=noise, scale=1e-300, sigma=1e-300, delta=delta)
    assert recipe.kernel_mass() == 1.0  # only the best hypothesis counts
    statement = recipe.statement()
    assert statement.guarantee.epsilon > 1e299
    assert statement.claimed.log10_epsilon > 299
    assert kernel_weights(3, 5e-324) == [1.0, 0.0, 0.0]
