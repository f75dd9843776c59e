"""The build audits itself: what the ledger says must survive, and what is wrong must be caught.

Each claim has its negative control. If an audit lost its power (a score computed wrongly, a bound
that always returns 0), the halved noise and the published recipe would no longer be caught, and
these tests fail.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.audit.trainer import Model, PrivateTraining, PublishedStep, train_sgd

from sottovoce.audit import (
    AuditResult,
    DiracCanaries,
    Family,
    LowerBound,
    RandomCanaries,
    clopper_pearson_bound,
    gaussian_bound,
    gradient_scores,
    independent_canaries_audit,
    one_run_audit,
    text_canaries,
)
from sottovoce.audit._checks import Flags, Scores
from sottovoce.corpora.synthetic import generate, schema
from sottovoce.privacy.accountants import gaussian
from sottovoce.privacy.guarantee import Guarantee, Relation, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource

DELTA = 1e-5
CANARIES = 20_000
INTENTS = schema("communication").intents
UTTERANCES = list(generate("communication", size=200, seed=3))
FOUR_STEPS = PrivateTraining(steps=4, noise_multiplier=2.0)  # mu = sqrt(4) / 2 = 1


def trained(training: PrivateTraining, source: NoiseSource) -> tuple[Scores, Flags, Guarantee]:
    """One training with a Dirac canary on every other coordinate of the gradient."""
    model = Model(INTENTS, buckets=2 * CANARIES // len(INTENTS))
    planted = DiracCanaries.draw(
        CANARIES, dimension=model.weights.size, clip_norm=training.clip_norm, source=source
    )
    ledger, released = training.run(model, UTTERANCES, source=source, canaries=planted)
    return gradient_scores(planted, [released]), planted.included, ledger.guarantee(DELTA)


def white_box(
    training: PrivateTraining, *, seed: int, family: Family
) -> tuple[LowerBound, Guarantee]:
    """The bound that holds whatever the canaries do to each other."""
    source = NoiseSource.seeded(seed)
    scores, included, guarantee = trained(training, source)
    bound = one_run_audit(scores, included, delta=DELTA, family=family, source=source)
    return bound, guarantee


def tight(training: PrivateTraining, *, seed: int) -> tuple[LowerBound, Guarantee]:
    """The bound that uses that Dirac canaries are independent."""
    scores, included, guarantee = trained(training, NoiseSource.seeded(seed))
    bound = independent_canaries_audit(
        scores,
        included,
        threshold=training.steps * training.clip_norm / 2,
        delta=DELTA,
        family=Family.GAUSSIAN,
    )
    return bound, guarantee


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("family", list(Family))
def test_exact_dp_sgd_keeps_its_guarantee(seed: int, family: Family) -> None:
    bound, guarantee = white_box(FOUR_STEPS, seed=seed, family=family)
    assert guarantee.epsilon == pytest.approx(gaussian.epsilon_of(1.0, DELTA))
    assert not bound.contradicts(guarantee)
    # The audit is not blind: it proves at least a third (two fifths) of what is spent.
    assert bound.epsilon > (0.33 if family is Family.ANY else 0.4) * guarantee.epsilon


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_halved_noise_is_caught(seed: int) -> None:
    """The ledger was told z = 2 and half of it was added: mu is 2, and epsilon 10."""
    lie = replace(FOUR_STEPS, noise_factor=0.5)
    bound, guarantee = white_box(lie, seed=seed, family=Family.GAUSSIAN)
    assert bound.contradicts(guarantee)
    assert bound.epsilon > 1.2 * guarantee.epsilon
    assert bound.epsilon < gaussian.epsilon_of(2.0, DELTA)
    (defect,) = AuditResult(bounds=(bound,), guarantee=guarantee).defects()
    assert "is contradicted by a lower bound" in defect


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("factor", "caught"), [(1.3, False), (1.0, False), (0.85, True), (0.7, True)]
)
def test_the_tight_audit_weighs_the_noise(seed: int, factor: float, caught: bool) -> None:
    """The right noise and more of it pass, with little to spare; a sixth less is caught."""
    bound, guarantee = tight(replace(FOUR_STEPS, noise_factor=factor), seed=seed)
    assert bound.contradicts(guarantee) is caught
    assert bound.mu == pytest.approx(0.95 / factor, rel=0.08)


def test_a_third_of_the_noise_is_caught_without_assuming_a_gaussian() -> None:
    lie = replace(FOUR_STEPS, noise_factor=1 / 3)
    bound, guarantee = white_box(lie, seed=1, family=Family.ANY)
    assert bound.contradicts(guarantee)


def test_poisson_sampling_keeps_its_guarantee_and_forgetting_it_is_caught() -> None:
    """Epsilon by PLD at q = 0.1; the lie samples all canaries every time."""
    honest = PrivateTraining(steps=10, noise_multiplier=1.0, sampling_rate=0.1)
    bound, guarantee = white_box(honest, seed=4, family=Family.ANY)
    assert guarantee.accountant.startswith("PLD")
    assert not bound.contradicts(guarantee)
    everyone = PrivateTraining(steps=10, noise_multiplier=1.0)
    unsampled, _ = white_box(everyone, seed=4, family=Family.ANY)
    assert unsampled.contradicts(guarantee)


def test_random_directions_find_missing_noise_too() -> None:
    """1,000 directions in 18,000 dimensions overlap little; four steps with z = 4 have mu 0.5."""
    source = NoiseSource.seeded(5)
    model = Model(INTENTS, buckets=1000)
    planted = RandomCanaries.draw(1000, dimension=model.weights.size, clip_norm=1.0, source=source)
    bounds = {}
    for factor in (1.0, 0.25):
        training = PrivateTraining(steps=4, noise_multiplier=4.0, noise_factor=factor)
        ledger, released = training.run(
            Model(INTENTS, buckets=1000), UTTERANCES, source=source, canaries=planted
        )
        bound = one_run_audit(
            gradient_scores(planted, [released]),
            planted.included,
            delta=DELTA,
            family=Family.GAUSSIAN,
            source=source,
        )
        bounds[factor] = bound.contradicts(ledger.guarantee(DELTA))
    assert bounds == {1.0: False, 0.25: True}


def black_box(training: PrivateTraining | None, *, seed: int) -> tuple[LowerBound, Ledger | None]:
    """Audit one training with text canaries, seeing nothing but the finished model's scores."""
    source = NoiseSource.seeded(seed)
    vocabulary = sorted({token for utterance in UTTERANCES for token in utterance.tokens})
    planted = text_canaries(
        300,
        vocabulary=vocabulary,
        intents=INTENTS,
        source=source,
        known={utterance.text for utterance in UTTERANCES},
    )
    model, ledger = Model(INTENTS, buckets=1024), None
    records = [*UTTERANCES, *planted.chosen()]
    if training is None:
        train_sgd(model, records, epochs=100, rate=20.0)
    else:
        ledger, _ = training.run(model, records, source=source)
    scores = model.score(planted.utterances)
    return one_run_audit(scores, planted.included, delta=DELTA, source=source), ledger


def test_text_canaries_betray_plain_sgd_and_not_dp_sgd() -> None:
    learned_by_heart, _ = black_box(None, seed=6)
    assert learned_by_heart.epsilon > 2
    private, ledger = black_box(PrivateTraining(steps=20, noise_multiplier=5.0), seed=6)
    assert ledger is not None
    assert not private.contradicts(ledger.guarantee(DELTA))
    assert private.epsilon < learned_by_heart.epsilon


def distinguished(step: PublishedStep, *, runs: int = 100_000, seed: int = 7) -> dict[str, Any]:
    """Worker 0 holds a record of gradient +C, and in the neighbouring world one of -3C as well."""
    source = NoiseSource.seeded(seed)
    empty: list[list[float]] = [[] for _ in range(step.workers - 1)]
    with_record = step.released([[1.0, -3.0], *empty], runs, source)
    without = step.released([[1.0], *empty], runs, source)
    # The threshold 0 lies in the middle and was fixed before anything was drawn.
    return {
        "true_positives": int((with_record < 0).sum()),
        "members": runs,
        "false_positives": int((without < 0).sum()),
        "non_members": runs,
        "delta": 5e-4,
    }


def guarantee_of(step: PublishedStep) -> Guarantee:
    ledger = Ledger(unit=Unit.EXAMPLE, relation=Relation.ADD_OR_REMOVE)
    ledger.spend(step.fact())
    return ledger.guarantee(5e-4)


def test_the_published_step_is_falsified_and_the_ledger_is_not() -> None:
    """eDP-SGD as printed, 8 workers, z = 1: claimed 3.35, in truth 33.8."""
    step = PublishedStep()
    claimed, guarantee = gaussian.epsilon_of(1.0, 5e-4), guarantee_of(step)
    assert claimed == pytest.approx(3.35156077554293)
    assert guarantee.epsilon == pytest.approx(33.82873011673649)
    counts = distinguished(step)
    found = gaussian_bound(**counts)
    assert 30 < found.epsilon < guarantee.epsilon
    assert not found.contradicts(guarantee)
    # Even without assuming Gaussian noise the claim is false.
    assert clopper_pearson_bound(**counts).epsilon > claimed


def test_the_exact_split_is_caught_only_by_its_factor_of_two() -> None:
    """With all of the noise mu is still 2, not 1: a clipped mean can be turned around."""
    step = PublishedStep(exact_split=True)
    found = gaussian_bound(**distinguished(step))
    assert not found.contradicts(guarantee_of(step))
    assert found.mu == pytest.approx(2.0, abs=0.05)
    assert found.epsilon > gaussian.epsilon_of(1.0, 5e-4)


def test_an_audit_without_signal_proves_nothing() -> None:
    """The control of the controls: scores that know nothing of the coins give a bound of 0."""
    source = NoiseSource.seeded(8)
    planted = DiracCanaries.draw(5000, dimension=5000, clip_norm=1.0, source=source)
    noise = np.asarray(source.uniform(5000))
    for family in Family:
        bound = one_run_audit(noise, planted.included, delta=DELTA, family=family, source=source)
        assert bound.epsilon == 0
