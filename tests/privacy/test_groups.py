"""Group privacy against closed forms, dp-accounting, and the textbook rule."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.stats import binom

from sottovoce.errors import CannotAccount, InvalidInput
from sottovoce.privacy.accountants import gaussian, mixture
from sottovoce.privacy.accountants.losses import GroupLoss
from sottovoce.privacy.accounting import Entry, account
from sottovoce.privacy.facts import BoundedRelease, Fact, Noise, NoisySum, NoisyVector, Sampling
from sottovoce.privacy.groups import group_guarantee
from sottovoce.privacy.guarantee import Relation, Unit

ADD, REPLACE = Relation.ADD_OR_REMOVE, Relation.REPLACE_ONE


def step(noise: float = 2.0, rate: float = 0.02) -> NoisySum:
    return NoisySum(unit=Unit.EXAMPLE, clip_norm=1, noise_stds=(noise,), sampling_rate=rate)


def shuffled(noise: float = 8.0, pool: str = "epoch 0") -> NoisySum:
    return NoisySum(
        unit=Unit.EXAMPLE, clip_norm=1, noise_stds=(noise,), sampling=Sampling.SHUFFLE, pool=pool
    )


def of_group(
    fact: Fact, size: int, count: int = 1, delta: float = 1e-5, relation: Relation = ADD
) -> float:
    guarantee = group_guarantee(
        [Entry(fact, count)], group_size=size, relation=relation, delta=delta
    )
    return guarantee.epsilon


def of_example(fact: Fact, count: int = 1, delta: float = 1e-5, relation: Relation = ADD) -> float:
    return account([Entry(fact, count)], unit=Unit.EXAMPLE, relation=relation, delta=delta).epsilon


@pytest.mark.parametrize("relation", list(Relation))
def test_a_group_of_one_is_the_example(relation: Relation) -> None:
    found = of_group(step(), 1, 100, relation=relation)
    assert found == of_example(step(), 100, relation=relation)


@pytest.mark.parametrize("size", [2, 5])
def test_without_sampling_a_group_moves_the_sum_so_many_times_as_far(size: int) -> None:
    fact = NoisyVector(unit=Unit.EXAMPLE, noise=Noise.GAUSSIAN, scale=10.0, sensitivity=1.0)
    assert of_group(fact, size, 4) == pytest.approx(gaussian.epsilon_of(0.2 * size, 1e-5))
    laplace = NoisyVector(unit=Unit.EXAMPLE, noise=Noise.LAPLACE, scale=10.0, sensitivity=1.0)
    assert of_group(laplace, size, delta=0) == pytest.approx(0.1 * size)


def test_in_shuffled_batches_a_user_is_worst_with_all_examples_in_one_batch() -> None:
    found = of_group(shuffled(), 3, 7, relation=REPLACE)
    assert found == pytest.approx(gaussian.epsilon_of(3 * 2 / 8, 1e-5))
    # Any other split of three examples over the batches costs less.
    for deal in ((2, 1), (1, 1, 1)):
        mu = gaussian.compose(k * 2 / 8 for k in deal)
        assert gaussian.epsilon_of(mu, 1e-5) <= found


def test_unlike_members_of_a_pool_all_count_for_a_group() -> None:
    other = BoundedRelease(unit=Unit.EXAMPLE, mechanism="m", epsilon=0.1, pool="epoch 0")
    both = [Entry(shuffled()), Entry(other)]
    together = group_guarantee(both, group_size=2, relation=REPLACE, delta=1e-5).epsilon
    assert together > max(
        of_group(shuffled(), 2, relation=REPLACE), of_group(other, 2, relation=REPLACE)
    )


@pytest.mark.parametrize("size", [2, 4])
def test_sampled_groups_agree_with_dp_accounting(size: int) -> None:
    k = range(size + 1)
    theirs = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        2.0,
        list(k),
        np.atleast_1d(binom.pmf(k, size, 0.02)).tolist(),
        value_discretization_interval=1e-3,
    ).self_compose(100)
    expected = theirs.get_epsilon_for_delta(1e-5)
    assert of_group(step(), size, 100) == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_the_textbook_rule_is_never_tighter_for_adding_a_user(size: int) -> None:
    # K e^((K-1) epsilon) delta for the group, from delta for the example.
    example = of_example(step(3.0), 50, 1e-9)
    delta = min(size * math.exp((size - 1) * example) * 1e-9, 0.05)
    assert of_group(step(3.0), size, 50, delta) <= size * example * (1 + 1e-3)


@pytest.mark.parametrize("relation", list(Relation))
def test_epsilon_grows_with_the_group_and_never_beyond_no_sampling(relation: Relation) -> None:
    found = [of_group(step(), size, 30, relation=relation) for size in (1, 2, 4, 8, 16)]
    assert found == sorted(found)
    kappa = 1 if relation is ADD else 2
    for size, epsilon in zip((1, 2, 4, 8, 16), found, strict=True):
        mu = kappa * size / 2.0 * math.sqrt(30)
        assert epsilon <= gaussian.epsilon_of(mu, 1e-5) * (1 + 1e-9)


def test_one_unit_is_the_closed_form_of_the_sampled_gaussian() -> None:
    grid, loss = np.linspace(-2, 2, 41), GroupLoss(0.1, 1.3, 1)
    for ours, closed in (
        (mixture.removing_delta, gaussian.removing_delta),
        (mixture.adding_delta, gaussian.adding_delta),
    ):
        assert ours(grid, loss) == pytest.approx(closed(grid, 0.1, 1.3), abs=1e-12)


def test_replacing_covers_what_two_groups_can_do() -> None:
    """Opposite directions, by numerical integration of the two mixtures."""
    rate, noise, size = 0.2, 1.5, 3
    x = np.linspace(-25, 25, 400_001)
    k = np.arange(size + 1)
    p = binom.pmf(k, size, rate)
    density = np.exp(-((x[:, None] - k) ** 2) / (2 * noise**2)) @ p
    density /= noise * math.sqrt(2 * math.pi)
    mirrored = density[::-1]
    for epsilon in (-1.0, -0.2, 0.0, 0.3, 1.0, 2.0):
        truth = np.maximum(density - math.exp(epsilon) * mirrored, 0).sum() * (x[1] - x[0])
        bound = mixture.replacing_delta(np.array([epsilon]), GroupLoss(rate, noise, size))[0]
        assert truth <= bound + 1e-9


def test_the_statement_names_its_assumption_and_unit() -> None:
    found = group_guarantee([Entry(step())], group_size=3, relation=ADD, delta=1e-5)
    assert found.unit is Unit.USER
    assert "no user has more than 3 examples" in found.assumptions


def test_bad_groups_are_refused() -> None:
    for size in (0, -1, 2.5, True, "3"):
        with pytest.raises(InvalidInput):
            group_guarantee([Entry(step())], group_size=size, relation=ADD, delta=1e-5)  # type: ignore[arg-type]
    user = NoisySum(unit=Unit.USER, clip_norm=1, noise_stds=(1.0,), sampling_rate=0.1)
    with pytest.raises(CannotAccount):
        group_guarantee([Entry(user)], group_size=2, relation=ADD, delta=1e-5)


def test_a_delta_above_a_tenth_of_one_over_the_users_does_not_hold() -> None:
    found = group_guarantee(
        [Entry(step())], group_size=3, relation=ADD, delta=1e-3, population=1000
    )
    assert not found.holds
