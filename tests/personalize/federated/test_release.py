"""The noise that was added is the noise that the ledger accounts for."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from tests.statistical import distributions

from sottovoce.errors import BudgetExceeded, InvalidInput
from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.release import CountRelease
from sottovoce.privacy.facts import Noise, NoisyVector
from sottovoce.privacy.guarantee import SEEDED_STAMP, Relation, Unit
from sottovoce.privacy.ledger import Budget, Ledger
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.recipes.federate import Cap, Release

SIZE = distributions.SAMPLES
# The package re-exports functions, so fetch the module whose draws are patched.
RELEASE = importlib.import_module("sottovoce.personalize.federated.release")
TARGETS = {
    Noise.LAPLACE: distributions.laplace,
    Noise.GAUSSIAN: distributions.normal,
    Noise.DISCRETE_LAPLACE: distributions.discrete_laplace,
    Noise.DISCRETE_GAUSSIAN: distributions.discrete_gaussian,
}


def ledger_for(plan: ReleasePlan, budget: Budget | None = None) -> Ledger:
    return Ledger(unit=plan.unit, relation=Relation.ADD_OR_REMOVE, budget=budget)


def objections(noise: Noise, factor: float, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Deviations of the noise of a release whose draws are scaled by `factor`."""
    name = str(noise).replace("-", "_")
    draw = getattr(RELEASE.draws, name)
    monkeypatch.setattr(RELEASE.draws, name, lambda n, s, source: draw(n, s * factor, source))
    plan = ReleasePlan(counting=Counting(integer=True), noise=noise, scale=0.1)
    ledger = ledger_for(plan)
    exact = np.arange(SIZE, dtype=np.float64)
    noisy = CountRelease(plan, ledger, NoiseSource.seeded(3))(exact)
    added = noisy * plan.counting.unit - exact
    (entry,) = ledger.entries
    assert isinstance(entry.fact, NoisyVector)
    # The audit: noise measured on the output against the scale in the ledger.
    target = TARGETS[noise](entry.fact.scale)
    if name.startswith("discrete"):
        return distributions.discrete_objections(np.rint(added).astype(np.int64), target)
    return distributions.objections(added, target)


@pytest.mark.parametrize("noise", Noise)
def test_the_noise_is_that_of_the_ledger(noise: Noise, monkeypatch: pytest.MonkeyPatch) -> None:
    assert objections(noise, 1.0, monkeypatch) == []


@pytest.mark.parametrize("factor", [0.7, 1.3])
@pytest.mark.parametrize("noise", Noise)
def test_other_noise_is_noticed(
    noise: Noise, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert objections(noise, factor, monkeypatch)


@pytest.mark.parametrize("noise", Noise)
def test_the_stated_standard_deviation_is_right(noise: Noise) -> None:
    plan = ReleasePlan(counting=Counting(integer=True), noise=noise, scale=0.05)
    noisy = CountRelease(plan, ledger_for(plan), NoiseSource.seeded(5))(np.zeros(SIZE))
    assert noisy.std() == pytest.approx(plan.noise_std, rel=0.02)


def test_increments_cost_once_and_cumulative_counts_every_time() -> None:
    plan = ReleasePlan(counting=Counting(sigma=1.0, nbest=20, max_words=15), scale=2.0)
    for release, expected in ((Release.INCREMENTS, 13.15), (Release.CUMULATIVE, 131.5)):
        ledger = ledger_for(plan)
        execute = CountRelease(replace(plan, release=release), ledger)
        for _ in range(10):
            execute(np.zeros(3))
        assert ledger.guarantee(0.0).epsilon == pytest.approx(expected, rel=1e-3)
        assert execute.rounds_done == 10


def test_growing_caps_are_counted_from_the_ledger() -> None:
    plan = ReleasePlan(
        unit=Unit.USER, caps=Caps(2.0, span=Cap.PER_ROUND), release=Release.CUMULATIVE, scale=1.0
    )
    ledger = ledger_for(plan)
    CountRelease(plan, ledger)(np.zeros(3))
    # Another process continues: the second release moves by two rounds of mass.
    CountRelease(plan, ledger)(np.zeros(3))
    assert [entry.fact.losses(Relation.ADD_OR_REMOVE)[0][0] for entry in ledger.entries] == [
        *(plan.fact(n).losses(Relation.ADD_OR_REMOVE)[0][0] for n in (1, 2))
    ]
    assert ledger.guarantee(0.0).epsilon == pytest.approx(6.0)


def test_a_budget_refuses_before_anything_is_released() -> None:
    plan = ReleasePlan(
        unit=Unit.USER, caps=Caps(1.0, span=Cap.PER_ROUND), scale=2.0, noise=Noise.LAPLACE
    )
    ledger = ledger_for(plan, Budget(epsilon=1.0, delta=0.0))
    execute = CountRelease(plan, ledger)
    execute(np.zeros(3))
    execute(np.zeros(3))
    with pytest.raises(BudgetExceeded, match="nothing was released"):
        execute(np.zeros(3))
    assert execute.rounds_done == 2


def test_a_seed_is_stamped_and_the_system_is_not() -> None:
    plan = ReleasePlan()
    seeded, free = ledger_for(plan), ledger_for(plan)
    CountRelease(plan, seeded, NoiseSource.seeded(1))(np.zeros(3))
    CountRelease(plan, free)(np.zeros(3))
    assert SEEDED_STAMP in seeded.guarantee(0.0).assumptions
    assert SEEDED_STAMP not in free.guarantee(0.0).assumptions
    assert any("first pass" in sentence for sentence in free.guarantee(0.0).assumptions)


def test_calibration_is_the_inverse_of_accounting() -> None:
    plans = [
        (ReleasePlan(), 0.0),
        (ReleasePlan(noise=Noise.GAUSSIAN, counting=Counting(distinct=True)), 1e-6),
        (ReleasePlan(unit=Unit.USER, caps=Caps(50.0, 2.0), noise=Noise.GAUSSIAN), 1e-6),
        (ReleasePlan(sampling_rate=0.1), 0.0),
    ]
    for plan, delta in plans:
        found = plan.calibrated(epsilon=2.0, rounds=4, delta=delta)
        epsilon = found.guarantee(rounds=4, delta=delta).epsilon
        assert 2.0 * (1 - 1e-4) <= epsilon <= 2.0
    with pytest.raises(InvalidInput, match="needs delta > 0"):
        ReleasePlan(noise=Noise.GAUSSIAN).calibrated(epsilon=1.0, rounds=1)


def test_bad_plans_and_counts() -> None:
    for reason, options in {
        "unit utterance or user": {"unit": Unit.TOKEN},
        "a mass cap with": {"unit": Unit.USER},
        "no caps with": {"caps": Caps(3.0)},
        "integer counting": {"noise": Noise.DISCRETE_LAPLACE},
        "scale > 0": {"scale": 0.0},
        "sampling_rate in": {"sampling_rate": 0.0},
        "Expected increments": {"sampling_rate": 0.5, "release": Release.CUMULATIVE},
    }.items():
        with pytest.raises(InvalidInput, match=reason):
            ReleasePlan(**options)  # type: ignore[arg-type]
    plan = ReleasePlan(counting=Counting(integer=True), noise=Noise.DISCRETE_LAPLACE)
    execute = CountRelease(plan, ledger_for(plan))
    for wrong in (np.array([0.5]), np.array([np.nan]), np.zeros((2, 2))):
        with pytest.raises(InvalidInput, match="Expected"):
            execute(wrong)
    assert execute.rounds_done == 0
    with pytest.raises(InvalidInput, match="ledger that protects one utterance"):
        CountRelease(plan, Ledger(unit=Unit.USER, relation=Relation.ADD_OR_REMOVE))


def test_plans_as_json() -> None:
    plan = ReleasePlan(
        counting=Counting(integer=True),
        noise=Noise.DISCRETE_GAUSSIAN,
        unit=Unit.USER,
        caps=Caps(5.0, 2.0, Cap.PER_ROUND),
        release=Release.CUMULATIVE,
    )
    assert ReleasePlan.from_json(plan.to_json()) == plan
    assert ReleasePlan.from_json(ReleasePlan(sampling_rate=0.5).to_json()).sampling_rate == 0.5
    with pytest.raises(InvalidInput, match="release plan"):
        ReleasePlan.from_json({})
