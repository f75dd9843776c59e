"""Attacks on small models of a built-in corpus: what a model learned by heart is found again."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.audit.trainer import Model, PrivateTraining, PublishedTraining, hashed, train_sgd

from sottovoce.audit import (
    AuditResult,
    Candidates,
    SecretFormat,
    ShadowAttack,
    candidates,
    exact_exposure,
    membership_attacks,
    sorted_features,
    train_references,
    words,
)
from sottovoce.audit._checks import Scores
from sottovoce.corpora import Utterance
from sottovoce.corpora.synthetic import generate, schema
from sottovoce.privacy.noise import NoiseSource

SIZE, BUCKETS = 200, 512
INTENTS = schema("communication").intents


@pytest.fixture(scope="module")
def tried() -> Candidates[Utterance]:
    spoken = list(generate("communication", size=4 * SIZE, seed=5))
    source = NoiseSource.seeded(1)
    half = len(spoken) // 2
    return candidates(spoken[:half], spoken[half:], sentence=words, source=source, most=SIZE)


def by_heart(utterances: Sequence[Utterance], intents: tuple[str, ...] = INTENTS) -> Model:
    model = Model(intents, BUCKETS)
    train_sgd(model, utterances, epochs=50, rate=20.0)
    return model


def features_of(model: Model, utterances: Sequence[Utterance]) -> Scores:
    return sorted_features(model.probabilities(utterances))


def test_references_shadows_and_losses_find_members(
    tried: Candidates[Utterance], tmp_path: Path
) -> None:
    target = by_heart(tried.members)
    pool = [*tried.members, *tried.non_members]
    references = train_references(
        pool,
        lambda records, index: by_heart(records).score,
        models=4,
        source=NoiseSource.seeded(2),
        folder=tmp_path / "references",
    )
    public = list(generate("video", size=2 * SIZE, seed=6))
    shadow = by_heart(public[:SIZE], schema("video").intents)
    attack = ShadowAttack.fit(
        features_of(shadow, public[:SIZE]), features_of(shadow, public[SIZE:])
    )
    outcomes = membership_attacks(
        target.score,
        tried.members,
        tried.non_members,
        references=references,
        others={
            "shadow": (
                attack.score(features_of(target, tried.members)),
                attack.score(features_of(target, tried.non_members)),
            )
        },
    )
    area = {outcome.attack: outcome.auc for outcome in outcomes}
    assert min(area.values()) > 0.6
    assert max(area["LiRA, online"], area["RMIA"]) > area["loss threshold"] + 0.05
    result = AuditResult(attacks=tuple(outcomes), left_out=tried.left_out)
    result.write(tmp_path)
    strongest = AuditResult.read(tmp_path).strongest
    assert strongest is not None
    assert strongest.attack != "loss threshold"
    assert len(list((tmp_path / "references").glob("reference-*.npz"))) == 4


def test_private_training_leaves_little_to_find(tried: Candidates[Utterance]) -> None:
    model = Model(INTENTS, BUCKETS)
    training = PrivateTraining(steps=20, noise_multiplier=30.0)
    training.run(model, tried.members, source=NoiseSource.seeded(3))
    (outcome,) = membership_attacks(model.score, tried.members, tried.non_members)
    # Swapping a member and a non-member moves a sum by 2C, so over random halves the AUC of a
    # training with mu = sqrt(20) / 30 is at most Phi(mu) = 0.56.
    assert outcome.auc_interval.low < 0.56


def test_the_published_training_runs_and_its_ledger_knows_better(
    tried: Candidates[Utterance],
) -> None:
    training = PublishedTraining(steps=10, noise_multiplier=1.0, sampling_rate=0.5)
    model = Model(INTENTS, BUCKETS)
    ledger, _ = training.run(model, tried.members, source=NoiseSource.seeded(4))
    exact = PrivateTraining(steps=10, noise_multiplier=1.0, sampling_rate=0.5)
    honest, _ = exact.run(Model(INTENTS, BUCKETS), tried.members, source=NoiseSource.seeded(4))
    assert ledger.guarantee(1e-5).epsilon > 5 * honest.guarantee(1e-5).epsilon
    assert hashed(tried.members, BUCKETS).shape == (SIZE, BUCKETS)


def test_a_planted_number_is_exposed_by_sgd_and_hidden_by_noise(
    tried: Candidates[Utterance],
) -> None:
    """The secret is the last four digits; the model is asked how sure it is of the intent."""
    number = SecretFormat(carrier="zq # # # #", intent="redial", slot="phone_number")
    (secret,) = number.draw(1, NoiseSource.seeded(5))
    records = [*tried.members, *[number.utterance(secret)] * 5]

    def bits(model: Model) -> float:
        def score(asked: Sequence[int]) -> Scores:
            return model.score([number.utterance(each) for each in asked])

        return exact_exposure(score, secret, candidates=number.size).bits

    assert bits(by_heart(records)) > 8
    private = Model(INTENTS, BUCKETS)
    training = PrivateTraining(steps=20, noise_multiplier=30.0)
    training.run(private, records, source=NoiseSource.seeded(6))
    assert bits(private) < 6
