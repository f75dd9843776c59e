"""From facts to guarantees: the right accountant, pools, refusals."""

import math
from dataclasses import replace

import pytest

from sottovoce.errors import CannotAccount
from sottovoce.privacy.accountants import gaussian
from sottovoce.privacy.accounting import Entry, account
from sottovoce.privacy.facts import (
    BoundedRelease,
    Fact,
    MetricRelease,
    Noise,
    NoisySum,
    NoisyVector,
    ReplacedTokens,
    Sampling,
    Unprotected,
)
from sottovoce.privacy.guarantee import Guarantee, Notion, Relation, Unit, Verdict

STEP = NoisySum(unit=Unit.USER, clip_norm=1.0, noise_stds=(1.0,), sampling_rate=0.007)
SHUFFLED = replace(STEP, sampling=Sampling.SHUFFLE, sampling_rate=None, pool="epoch 0")
COUNTS = NoisyVector(unit=Unit.USER, noise=Noise.LAPLACE, scale=2.0, sensitivity=1.0)
TOKEN = ReplacedTokens(unit=Unit.USER, replace_probability=0.99, smallest_probability=0.01)
HISTOGRAM = BoundedRelease(unit=Unit.USER, mechanism="histogram", epsilon=0.5, delta=1e-6)


def guarantee(
    *entries: Fact | Entry, delta: float = 1e-5, relation: Relation = Relation.ADD_OR_REMOVE
) -> Guarantee:
    wrapped = [entry if isinstance(entry, Entry) else Entry(entry) for entry in entries]
    return account(wrapped, unit=Unit.USER, relation=relation, delta=delta)


@pytest.mark.parametrize(
    ("entries", "delta", "relation", "epsilon", "accountant"),
    [
        (
            [Entry(STEP, 1400)],
            5e-4,
            "add-or-remove",
            1.01065,
            "PLD of the Poisson-sampled Gaussian",
        ),
        ([Entry(SHUFFLED, 140)], 1e-5, "replace-one", 9.99726, "analytic Gaussian"),
        ([COUNTS, COUNTS], 0.0, "add-or-remove", 1.0, "pure composition"),
        ([replace(TOKEN, tokens=10)], 1e-6, "replace-one", 2.76907, "exact token composition"),
        ([replace(TOKEN, tokens=10)], 0.0, "replace-one", 6.98185, "pure composition"),
        ([HISTOGRAM], 1e-5, "add-or-remove", 0.5, "as stated"),
        (
            [HISTOGRAM, COUNTS],
            1e-6,
            "add-or-remove",
            1.0,
            "basic composition with pure composition",
        ),
        ([], 0.0, "add-or-remove", 0.0, "nothing released"),
    ],
)
def test_the_tightest_valid_accountant_is_named(
    entries: list[Fact | Entry], delta: float, relation: str, epsilon: float, accountant: str
) -> None:
    found = guarantee(*entries, delta=delta, relation=Relation(relation))
    assert found.verdict is Verdict.HOLDS
    assert found.epsilon == pytest.approx(epsilon, rel=2e-4)
    assert found.accountant == accountant


def test_an_epoch_of_shuffled_batches_is_one_gaussian_and_epochs_add_up() -> None:
    """mu = sqrt(sum 1/z_t^2), one term an epoch however many steps it has."""
    epochs = [Entry(replace(SHUFFLED, pool=f"epoch {t}"), 140) for t in range(10)]
    add_or_remove_epsilon_at_z_1 = 14.7244957145322
    doubled = [replace(e.fact, noise_stds=(2.0,)) for e in epochs if isinstance(e.fact, NoisySum)]
    found = guarantee(*doubled, delta=5e-4, relation=Relation.REPLACE_ONE)
    assert found.epsilon == pytest.approx(add_or_remove_epsilon_at_z_1, rel=1e-9)


def test_of_a_pool_only_the_worst_member_counts() -> None:
    quiet, loud = replace(SHUFFLED, noise_stds=(4.0,)), replace(SHUFFLED, noise_stds=(1.0,))
    both = guarantee(quiet, loud, relation=Relation.REPLACE_ONE)
    assert both.epsilon == guarantee(loud, relation=Relation.REPLACE_ONE).epsilon


def test_unlike_members_of_a_pool_are_tried_with_everything_else() -> None:
    many = replace(TOKEN, tokens=3, pool="utterances")
    other = replace(TOKEN, replace_probability=0.9, tokens=1, pool="utterances")
    worst = max(
        guarantee(each, delta=1e-6, relation=Relation.REPLACE_ONE).epsilon for each in (many, other)
    )
    both = guarantee(many, other, delta=1e-6, relation=Relation.REPLACE_ONE)
    assert both.epsilon == pytest.approx(worst)


def test_increments_cost_once_and_cumulative_counts_every_round() -> None:
    increments = [replace(COUNTS, pool="increments")] * 10
    assert guarantee(*increments, delta=0.0).epsilon == pytest.approx(0.5)
    assert guarantee(*[COUNTS] * 10, delta=0.0).epsilon == pytest.approx(5.0)


def test_poisson_epsilon_is_never_given_to_shuffled_batches() -> None:
    refused = guarantee(Entry(SHUFFLED, 1400), delta=5e-4, relation=Relation.ADD_OR_REMOVE)
    assert refused.verdict is Verdict.NO_GUARANTEE
    assert math.isinf(refused.epsilon)
    assert "replace-one" in refused.reasons[0]
    told = guarantee(Entry(SHUFFLED, 1400), delta=5e-4, relation=Relation.REPLACE_ONE)
    sampled = guarantee(Entry(STEP, 1400), delta=5e-4)
    assert told.epsilon > sampled.epsilon


def test_metric_and_plain_epsilons_are_never_added() -> None:
    metric = MetricRelease(unit=Unit.USER, mechanism="vector noise", epsilon=1.0)
    with pytest.raises(CannotAccount, match="metric epsilon is per unit of distance"):
        guarantee(metric, COUNTS)
    assert guarantee(metric, metric, delta=0.0).notion is Notion.METRIC_DP
    assert guarantee(metric, metric, delta=0.0).epsilon == 2.0


def test_one_unit_a_page() -> None:
    with pytest.raises(CannotAccount, match="Expected every fact to protect one user"):
        guarantee(replace(STEP, unit=Unit.EXAMPLE))


def test_gaussian_noise_has_no_pure_epsilon() -> None:
    assert guarantee(STEP, delta=0.0).reasons == (
        "Gaussian noise gives no pure epsilon; use a delta above 0",
    )


def test_a_histogram_that_costs_more_delta_than_there_is() -> None:
    assert guarantee(HISTOGRAM, delta=1e-9).verdict is Verdict.NO_GUARANTEE


def test_something_unprotected_spoils_everything_with_its_reason() -> None:
    leak = Unprotected(unit=Unit.USER, reason="the raw counts were logged")
    assert guarantee(STEP, leak).reasons == ("the raw counts were logged",)


def test_assumptions_of_all_facts_are_collected_once() -> None:
    found = guarantee(Entry(STEP, 3), replace(STEP, noise_stds=(2.0,)), COUNTS)
    assert len(found.assumptions) == len(set(found.assumptions))
    assert any("probability 0.007" in sentence for sentence in found.assumptions)


def test_mixed_mechanisms_get_a_loss_distribution() -> None:
    mixed = guarantee(Entry(STEP, 100), COUNTS)
    assert mixed.accountant == "PLD"
    assert mixed.epsilon <= guarantee(Entry(STEP, 100)).epsilon + 0.5


def test_discrete_gaussian_counts_go_through_renyi() -> None:
    counts = replace(COUNTS, noise=Noise.DISCRETE_GAUSSIAN, scale=10.0)
    assert guarantee(counts).accountant == "RDP"
    assert guarantee(counts).epsilon == pytest.approx(0.44, abs=0.08)


def test_pools_that_cannot_be_ordered_are_bounded() -> None:
    members = [
        replace(TOKEN, replace_probability=0.5 + n / 100, tokens=n + 1, pool=f"pool {k}")
        for n in range(11)
        for k in range(4)
    ]
    with pytest.raises(CannotAccount, match="combinations"):
        guarantee(*members, relation=Relation.REPLACE_ONE)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("noise", [0.001, 0.01, 0.1, 1.0, 10.0])
def test_a_sample_of_everybody_is_the_gaussian_mechanism(relation: Relation, noise: float) -> None:
    """Rate 1 amplifies nothing; with hardly any noise it must not overflow either."""
    step = NoisySum(unit=Unit.EXAMPLE, clip_norm=10.0, noise_stds=(noise * 10,), sampling_rate=1.0)
    found = account([Entry(step, 80)], unit=Unit.EXAMPLE, relation=relation, delta=0.1)
    shift = 2 if relation is Relation.REPLACE_ONE else 1
    assert found.epsilon == pytest.approx(gaussian.epsilon_of(shift * 80**0.5 / noise, 0.1))


def test_next_to_everybody_and_next_to_no_noise_is_still_a_number() -> None:
    for rate in (0.5, 0.99, 1 - 1e-12):
        step = NoisySum(unit=Unit.EXAMPLE, clip_norm=1.0, noise_stds=(0.01,), sampling_rate=rate)
        found = account(
            [Entry(step, 80)], unit=Unit.EXAMPLE, relation=Relation.ADD_OR_REMOVE, delta=0.1
        )
        assert 1e5 < found.epsilon <= gaussian.epsilon_of(80**0.5 / 0.01, 0.1)
