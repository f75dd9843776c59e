"""Plans: their guarantees and calibration before the run."""

from dataclasses import replace

import pytest

from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import Assignment, Contribution, Sampling, ScaleSource
from sottovoce.privacy.guarantee import Relation, Unit, Verdict
from sottovoce.privacy.recipes import Decay, NoiseSplit
from sottovoce.training.plan import Method, Plan

PLAN = Plan(population=1000, batch_size=50, epochs=2, delta=1e-5)


def test_steps_and_rates() -> None:
    assert (PLAN.sampling_rate, PLAN.steps_per_epoch, PLAN.steps) == (0.05, 20, 40)
    assert replace(PLAN, population=1010, sampling=Sampling.SHUFFLE).steps_per_epoch == 21


@pytest.mark.parametrize(
    ("changes", "divisor", "contribution"),
    [
        ({}, 50, Contribution.PER_UNIT),
        ({"micro_batch": 5}, 10, Contribution.MIXED),
        ({"method": Method.EDP_SGD, "workers": 4}, 4, Contribution.MIXED),
        ({"method": Method.TEXTBOOK}, 50, Contribution.PER_UNIT),
    ],
)
def test_sums_are_divided_by_what_was_configured(
    changes: dict[str, object], divisor: int, contribution: Contribution
) -> None:
    plan = replace(PLAN, **changes)  # type: ignore[arg-type]
    assert plan.divisor == divisor
    assert plan.contribution is contribution


def test_places_decide_only_where_nobody_can_be_added() -> None:
    assert PLAN.assignment is Assignment.INDEPENDENT
    shuffled = replace(PLAN, sampling=Sampling.SHUFFLE)
    assert shuffled.assignment is Assignment.POSITIONAL
    assert shuffled.neighbours is Relation.REPLACE_ONE


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("changes", [{}, {"decay": Decay.LINEAR, "tau": 0.5}, {"unit": Unit.USER}])
def test_calibration_is_from_below(epsilon: float, changes: dict[str, object]) -> None:
    plan = replace(PLAN, **changes).calibrate(epsilon=epsilon)  # type: ignore[arg-type]
    assert epsilon * 0.999 <= plan.guarantee().epsilon <= epsilon


def test_calibration_at_another_delta() -> None:
    plan = PLAN.calibrate(epsilon=3.0, delta=PLAN.delta / 100)
    assert plan.guarantee().delta == plan.delta == PLAN.delta / 100
    assert plan.guarantee().epsilon <= 3
    assert plan.noise_multiplier > PLAN.calibrate(epsilon=3.0).noise_multiplier


def test_any_function_of_the_epoch_is_a_decay() -> None:
    halved = replace(PLAN, decay=lambda epoch: 0.5**epoch)
    assert [halved.noise_multiplier_of(epoch) for epoch in range(2)] == [1.0, 0.5]
    assert halved.guarantee().epsilon > PLAN.guarantee().epsilon
    with pytest.raises(InvalidInput, match="Expected the decay > 0"):
        replace(PLAN, decay=lambda epoch: 0.0).guarantee()


def test_edpsgd_as_printed_has_a_claim_and_no_guarantee() -> None:
    printed = Plan.edpsgd_as_printed(
        population=1000, batch_size=100, epochs=10, delta=5e-4, workers=8
    )
    statement = printed.statement()
    assert statement.claimed.epsilon == pytest.approx(17.3295599755564)
    assert statement.guarantee.verdict is Verdict.NO_GUARANTEE
    honest = replace(printed, alpha_source=ScaleSource.ONES)
    assert honest.guarantee().relation is Relation.REPLACE_ONE
    assert honest.guarantee().epsilon > 100


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"population": 0}, "Expected population >= 1"),
        ({"batch_size": 2000}, "Expected batch_size from 1 to the population"),
        ({"batch_size": 0}, "Expected batch_size from 1"),
        ({"micro_batch": 7}, "Expected a batch_size that is a multiple"),
        ({"micro_batch": 5, "method": Method.EDP_SGD}, "Expected micro_batch=1 with edp-sgd"),
        ({"alpha_source": ScaleSource.DP}, "only with edp-sgd"),
        ({"noise_split": NoiseSplit.PAPER}, "only with edp-sgd"),
        ({"clip_norm": -1.0}, "Expected clip_norm > 0"),
        ({"noise_multiplier": 0.0}, "Expected noise multiplier > 0"),
        ({"delta": 0.0}, "Expected delta > 0"),
        ({"virtual_batch": 0}, "Expected virtual_batch >= 1"),
        ({"epochs": 0}, "Expected epochs >= 1"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(PLAN, **changes)  # type: ignore[arg-type]


def test_plain_training_has_no_recipe() -> None:
    with pytest.raises(InvalidInput, match="Expected a private method"):
        replace(PLAN, method=Method.SGD).guarantee()
