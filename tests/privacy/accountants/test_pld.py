"""The PLD accountant against an independent FFT implementation, dp-accounting and Renyi."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant, privacy_loss_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import CannotAccount
from sottovoce.privacy.accountants import gaussian, pld, rdp, tokens
from sottovoce.privacy.accountants.losses import (
    ApproximateLoss,
    ConcentratedLoss,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PoissonGaussianLoss,
    PureLoss,
    TokenLoss,
)
from sottovoce.privacy.guarantee import Relation
from sottovoce.privacy.recipes.training import Decay

# Schedules (z0, decay, tau, epochs, steps an epoch, q, delta, factor on z) and their tight epsilon,
# from a separate FFT implementation with Richardson extrapolation.
SCHEDULES = [
    (1.0, "none", 0.0, 10, 140, 0.007, 5e-4, 1.0, 1.01064638),
    (1.0, "exponential", 0.05, 10, 140, 0.007, 5e-4, 1.0, 2.14965753),
    (1.5, "exponential", 0.1, 10, 100, 0.01, 1e-5, 1.0, 4.15903594),
    (2.0, "linear", 0.05, 20, 50, 0.02, 5e-5, 1.0, 2.22204148),
    (1.0, "linear", 0.1, 10, 140, 0.007, 5e-4, 1.0, 3.9331),
    (1.0, "linear", 0.1, 10, 140, 0.007, 5e-4, 0.5, 41.177409),
    (0.5, "none", 0.0, 1, 140, 1 / 140, 5e-4, 1.0, 3.50488334662104),
    (1.0, "none", 0.0, 10, 140, 1 / 140, 5e-4, 1.0, 1.034648312572063),
]


def schedule(
    z0: float, decay: str, tau: float, epochs: int, steps: int, q: float, factor: float
) -> list[tuple[Loss, int]]:
    counts: dict[float, int] = {}
    for epoch in range(epochs):
        noise = factor * z0 * Decay(decay).factor(tau, epoch)
        counts[noise] = counts.get(noise, 0) + steps
    return [(PoissonGaussianLoss(q, noise), count) for noise, count in counts.items()]


@pytest.mark.parametrize("case", SCHEDULES)
def test_sampled_schedules_are_tight_and_never_below(case: tuple[float, ...]) -> None:
    z0, decay, tau, epochs, steps, q, delta, factor, tight = case
    losses = schedule(z0, str(decay), tau, int(epochs), int(steps), q, factor)
    epsilon = pld.epsilon_of(losses, delta)
    assert tight * (1 - 1e-4) <= epsilon <= tight * (1 + 1e-3)
    assert epsilon <= rdp.epsilon_of(losses, delta)


@pytest.mark.parametrize(
    ("per_count", "sensitivity", "rounds", "epsilon"),
    [
        (0.5, 1, 1, 0.49997999989932645),
        (0.1, 1, 10, 0.9899623111713857),
        (0.1, 8, 10, 7.989962312353348),
        (0.1, 8, 1, 0.799979999898693),
        (2.0, 1, 2, 3.9999600000015083),
    ],
)
def test_laplace_at_delta(per_count: float, sensitivity: int, rounds: int, epsilon: float) -> None:
    found = pld.epsilon_of([(LaplaceLoss(per_count * sensitivity), rounds)], 1e-5)
    assert epsilon * (1 - 1e-6) <= found <= epsilon * (1 + 1e-3)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_all_mass_on_one_word_is_the_worst_split_of_a_laplace_sensitivity(share: float) -> None:
    """The accountant treats an L1 sensitivity as one coordinate; a split must not be worse."""
    for total in (0.2, 1.0, 4.0):
        for delta in (1e-9, 1e-5, 1e-2, 0.2):
            split = [(LaplaceLoss(share * total), 1), (LaplaceLoss((1 - share) * total), 1)]
            together = pld.epsilon_of([(LaplaceLoss(total), 1)], delta)
            assert pld.epsilon_of(split, delta) <= together * (1 + 1e-3) + 1e-9


@given(st.floats(0.001, 1.0), st.floats(0.3, 5.0))
@settings(max_examples=25)
def test_closed_forms_equal_the_library_point_by_point(rate: float, noise: float) -> None:
    grid = np.linspace(-3, 3, 41)
    for adjacency, ours in (("REMOVE", gaussian.removing_delta), ("ADD", gaussian.adding_delta)):
        library = privacy_loss_mechanism.GaussianPrivacyLoss(
            noise,
            sampling_prob=rate,
            adjacency_type=privacy_loss_mechanism.AdjacencyType[adjacency],
        )
        assert ours(grid, rate, noise) == pytest.approx(
            library.get_delta_for_epsilon(grid), abs=1e-12
        )


@pytest.mark.parametrize("relation", list(Relation))
def test_equals_dp_accounting_on_a_fine_grid(relation: Relation) -> None:
    from dp_accounting import NeighboringRelation

    theirs = PLDAccountant(
        NeighboringRelation.REPLACE_ONE
        if relation is Relation.REPLACE_ONE
        else NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    theirs.compose(dp_event.PoissonSampledDpEvent(0.05, dp_event.GaussianDpEvent(1.2)), 50)
    ours = pld.epsilon_of([(PoissonGaussianLoss(0.05, 1.2), 50)], 1e-6, relation)
    assert ours == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-3)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_full_sampling_is_the_gaussian_mechanism(delta: float) -> None:
    sampled = pld.epsilon_of([(PoissonGaussianLoss(1.0, 2.0), 9)], delta)
    assert sampled == pytest.approx(gaussian.epsilon_of(1.5, delta), rel=1e-3)


@pytest.mark.parametrize(
    ("noise", "rate", "steps"), [(50, 1e-3, 100), (1e3, 1e-3, 100), (1e3, 1e-4, 10)]
)
def test_tiny_epsilons_follow_the_central_limit(noise: float, rate: float, steps: int) -> None:
    mu = rate * math.sqrt(steps * math.expm1(1 / noise**2))
    epsilon = pld.epsilon_of([(PoissonGaussianLoss(rate, noise), steps)], 1e-8)
    assert epsilon == pytest.approx(gaussian.epsilon_of(mu, 1e-8), rel=0.02)


def test_enormous_epsilons_stay_finite_and_above_one_sampled_step() -> None:
    epsilon = pld.epsilon_of([(PoissonGaussianLoss(0.01, 1e-4), 100)], 1e-5)
    assert gaussian.epsilon_of(1e4, 1e-3) <= epsilon < math.inf


def test_mixed_mechanisms_cost_at_most_their_sum_and_at_least_each() -> None:
    parts: list[tuple[Loss, int]] = [
        (GaussianLoss(0.5), 1),
        (LaplaceLoss(0.4), 2),
        (PureLoss(0.3), 1),
        (TokenLoss(0.9, 0.1), 1),
        (PoissonGaussianLoss(0.1, 1.0), 10),
    ]
    together = pld.epsilon_of(parts, 1e-5)
    alone = [pld.epsilon_of([part], 1e-5) for part in parts]
    assert max(alone) < together < sum(alone)


def test_tokens_agree_with_their_exact_composition() -> None:
    kernel = TokenLoss(0.99, 0.01)
    composed = pld.epsilon_of([(kernel, 10)], 1e-6)
    assert composed == pytest.approx(tokens.epsilon_of([(kernel, 10)], 1e-6), rel=5e-3)
    assert composed >= tokens.epsilon_of([(kernel, 10)], 1e-6)


def test_an_approximate_release_keeps_its_delta() -> None:
    assert pld.epsilon_of([(ApproximateLoss(0.5, 1e-6), 1)], 1e-5) == pytest.approx(0.5, rel=1e-2)


@given(
    st.floats(0.005, 0.2), st.floats(0.7, 3.0), st.integers(1, 200), st.sampled_from([1e-8, 1e-5])
)
@settings(max_examples=15)
def test_monotone_in_every_argument(rate: float, noise: float, steps: int, delta: float) -> None:
    def epsilon(rate: float, noise: float, steps: int, delta: float) -> float:
        return pld.epsilon_of([(PoissonGaussianLoss(rate, noise), steps)], delta)

    slack = 1 + 5e-4  # two grids may differ by their tolerance
    base = epsilon(rate, noise, steps, delta)
    assert base <= epsilon(min(1.0, rate * 1.3), noise, steps, delta) * slack
    assert base <= epsilon(rate, noise / 1.3, steps, delta) * slack
    assert base <= epsilon(rate, noise, 2 * steps, delta) * slack
    assert base >= epsilon(rate, noise, steps, delta * 10) / slack


@pytest.mark.parametrize(
    ("rate", "noise", "order", "expected"),
    [
        (0.007, 1.0, 2, 8.41922653262569e-05),
        (0.007, 1.0, 32, 10.878095349758),
        (0.01, 0.6, 3, 0.00430094099531508),
        (0.5, 1.0, 4, 1.15070978730873),
    ],
)
def test_renyi_divergence_of_one_step(
    rate: float, noise: float, order: int, expected: float
) -> None:
    found = rdp.divergences(PoissonGaussianLoss(rate, noise), orders=np.array([float(order)]))
    assert found[0] == pytest.approx(expected, rel=1e-9)


def test_renyi_of_the_discrete_gaussian_is_bun_and_steinke() -> None:
    rho = 0.017469
    assert rdp.epsilon_of([(ConcentratedLoss(rho), 1)], 1e-6) <= rho + 2 * math.sqrt(
        rho * math.log(1e6)
    )


def test_what_has_no_rule_is_refused() -> None:
    with pytest.raises(CannotAccount, match="ConcentratedLoss"):
        pld.epsilon_of([(ConcentratedLoss(0.1), 1), (PureLoss(0.1), 1)], 1e-5)
    with pytest.raises(CannotAccount, match="ApproximateLoss"):
        rdp.epsilon_of([(ApproximateLoss(0.9, 1e-6), 1)], 1e-5)
