"""From settings and a corpus to a measured model, and what its run.json says to the people."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.nlu.small import SMALL, small_parts

from sottovoce.corpora import Utterance
from sottovoce.corpora.splits import Parts
from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit.loop import LOSS_SHOWN
from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.runs.card import MEASURED
from sottovoce.nlu.runs.experiment import PUBLIC_LABELS, train
from sottovoce.nlu.runs.run import load_run, save_run
from sottovoce.nlu.schema import Schema
from sottovoce.privacy.guarantee import SEEDED_STAMP, Guarantee, Relation, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.recipes import Decay
from sottovoce.training import Method

PARTS = small_parts()
ONLY_TRAIN = Parts(name="calls", train=PARTS.train)
DP: dict[str, Any] = {"method": Method.DP_SGD, "noise_multiplier": 2.0}


def test_sgd_learns_and_says_that_nothing_is_promised() -> None:
    larger = {"hidden": 24, "word_width": 32, "vocabulary": "hashed-2000"}
    quick = {"epochs": 20, "batch_size": 30, "learning_rate": 0.03}
    settings = Settings(**SMALL | larger | quick, seed=1)
    trained = train(settings, PARTS)
    valid = trained.run["metrics"]["valid"]
    largest = max(sum(u.intent == v.intent for u in PARTS.valid) for v in PARTS.valid)
    assert valid["intent_accuracy"]["value"] > largest / len(PARTS.valid) + 0.1
    assert valid["ser"]["low"] <= valid["ser"]["value"] <= valid["ser"]["high"]
    assert not Guarantee.from_json(trained.run["guarantee"]).holds
    assert trained.run["claimed"] is None
    assert trained.run["configuration"]["noise_multiplier"] is None
    assert trained.run["data"] == {"name": "communication", "train": 120, "valid": 30, "test": 80}


@pytest.mark.parametrize(
    "method",
    [
        DP,
        {"method": Method.TEXTBOOK, "noise_multiplier": 2.0},
        {"method": Method.DP_SGD, "epsilon": 4.0},
        {"method": Method.EDP_SGD, "noise_multiplier": 3.0, "workers": 3, "decay": Decay.LINEAR},
    ],
    ids=["dp-sgd", "textbook", "epsilon", "edp-sgd"],
)
def test_the_guarantee_is_the_plans_and_the_ledgers(method: dict[str, Any], tmp_path: Path) -> None:
    settings = Settings(**SMALL, **method)
    trained = train(settings, ONLY_TRAIN, folder=tmp_path)
    guarantee = Guarantee.from_json(trained.run["guarantee"])
    plan = settings.plan(len(PARTS.train))
    assert guarantee.holds
    assert guarantee.epsilon == pytest.approx(plan.guarantee().epsilon)
    assert guarantee.delta == plan.delta
    file = Ledger.read(tmp_path / "ledger.jsonl")
    assert file.guarantee(plan.delta).epsilon == pytest.approx(guarantee.epsilon)
    assert Ledger.from_json(trained.run["ledger"]).entries == file.entries
    assert sum(entry.count for entry in file.entries) == plan.steps
    assert trained.run["timings"]["steps"] == plan.steps
    assert trained.run["claimed"]["epsilon"] == pytest.approx(plan.statement().claimed.epsilon)
    assert trained.run["configuration"]["noise_multiplier"] == plan.noise_multiplier
    if settings.epsilon is not None:
        assert guarantee.epsilon <= settings.epsilon


def test_as_printed_has_no_guarantee_and_a_run_that_can_be_kept(tmp_path: Path) -> None:
    settings = Settings(
        **SMALL, method=Method.EDP_SGD, as_printed=True, noise_multiplier=0.1, workers=2
    )
    trained = train(settings, ONLY_TRAIN, folder=tmp_path)
    guarantee = Guarantee.from_json(trained.run["guarantee"])
    assert not guarantee.holds
    assert guarantee.relation is Relation.REPLACE_ONE
    save_run(tmp_path, trained.model, trained.run)
    kept = load_run(tmp_path).run
    assert kept["history"][-1]["epsilon"] == "inf"
    assert Settings.from_json(kept["asked"]) == settings


def test_a_run_is_complete_and_can_be_loaded(tmp_path: Path) -> None:
    trained = train(Settings(**SMALL, **DP), PARTS, folder=tmp_path)
    save_run(tmp_path, trained.model, trained.run)
    loaded = load_run(tmp_path)
    tokens = [utterance.tokens for utterance in PARTS.test]
    assert [(p.intent, p.slots) for p in loaded.model.predict(tokens)] == [
        (p.intent, p.slots) for p in trained.model.predict(tokens)
    ]
    assert loaded.run["seed"] == "keyed by the operating system"
    assert {"torch", "sottovoce", "python"} <= loaded.run["versions"].keys()
    json.dumps(loaded.run, allow_nan=False)


def uncovered(settings: Settings, parts: Parts, *, publish_metrics: bool = False) -> list[str]:
    trained = train(settings, parts, publish_metrics=publish_metrics)
    found: list[str] = trained.run["guarantee"]["not_covered"]
    return found


def test_what_is_not_covered_is_listed() -> None:
    plain = uncovered(Settings(**SMALL, **DP), PARTS)
    assert any("intents and slots" in each and "read off" in each for each in plain)
    assert any("number of examples" in each for each in plain)
    assert MEASURED not in plain
    assert MEASURED in uncovered(Settings(**SMALL, **DP), PARTS, publish_metrics=True)
    assert LOSS_SHOWN in plain
    assert not any("vocabulary" in each for each in plain)
    private = uncovered(Settings(**SMALL | {"vocabulary": "private"}, **DP), ONLY_TRAIN)
    assert any("vocabulary, read off" in each for each in private)


def test_what_is_declared_is_assumed() -> None:
    settings = Settings(**SMALL, **DP, population=160)
    trained = train(settings, ONLY_TRAIN, Schema.of(PARTS.train, declared=True))
    guarantee = trained.run["guarantee"]
    assert PUBLIC_LABELS in guarantee["assumptions"]
    assert not any("read off" in each or "number of" in each for each in guarantee["not_covered"])
    # The declared number sets the sampling rate and delta.
    assert trained.run["configuration"]["population"] == 160
    assert "with probability 0.25," in " ".join(guarantee["assumptions"])
    assert guarantee["delta"] == settings.delta_for(160) < settings.delta_for(120)


def test_users_are_sampled_whole() -> None:
    settings = Settings(**SMALL | {"batch_size": None}, **DP, unit=Unit.USER)
    trained = train(settings, ONLY_TRAIN)
    users = {utterance.user for utterance in PARTS.train}
    assert 1 < len(users) < len(PARTS.train)
    assert trained.run["configuration"]["population"] == len(users)
    assert trained.run["guarantee"]["unit"] == "user"
    assert any("number of users" in each for each in trained.run["guarantee"]["not_covered"])
    nobody = replace(ONLY_TRAIN, train=(*PARTS.train[:3], replace(PARTS.train[3], user="")))
    with pytest.raises(InvalidInput, match="--unit example"):
        train(settings, nobody)


def test_a_vocabulary_and_a_training_share_one_budget(tmp_path: Path) -> None:
    settings = Settings(
        **SMALL | {"vocabulary": "dp"}, method=Method.DP_SGD, epsilon=6.0, vocabulary_epsilon=2.0
    )
    trained = train(settings, ONLY_TRAIN, folder=tmp_path)
    ledger = Ledger.read(tmp_path / "ledger.jsonl")
    assert [entry.fact.kind for entry in ledger.entries] == ["bounded-release", "noisy-sum"]
    epsilon = trained.run["guarantee"]["epsilon"]
    assert 5.5 < epsilon <= 6.0
    assert epsilon == pytest.approx(ledger.guarantee(settings.delta_for(120)).epsilon)
    # The twin: a training that had spent it all would not have left the vocabulary its share.
    alone = Settings(**SMALL, method=Method.DP_SGD, epsilon=6.0).plan(120)
    assert trained.run["configuration"]["noise_multiplier"] > 1.05 * alone.noise_multiplier


def test_seeds_repeat_a_run_and_are_told() -> None:
    one, two = (train(Settings(**SMALL, **DP, seed=5), ONLY_TRAIN) for _ in range(2))
    assert one.run["seed"] == SEEDED_STAMP
    weights = zip(one.model.parameters(), two.model.parameters(), strict=True)
    assert all(bool((a == b).all()) for a, b in weights)


def test_labels_that_the_schema_rules_out_are_refused() -> None:
    schema = Schema.of(PARTS.train[:60], declared=True)
    strange = Utterance(tokens=("a", "b"), slots=("O", "B-nothing"), intent=schema.intents[0])
    with pytest.raises(InvalidInput, match=r"Utterance 1: Expected one of the .* slot labels"):
        train(Settings(**SMALL), Parts(name="x", train=(strange,)), schema)
    strange = Utterance(tokens=("a",), slots=("O",), intent="nothing")
    with pytest.raises(InvalidInput, match=r"Utterance 1: Expected one of the .* intents"):
        train(Settings(**SMALL), Parts(name="x", train=(strange,)), schema)
    bare = replace(schema, slots_of={intent: frozenset() for intent in schema.intents})
    with pytest.raises(InvalidInput, match="Expected slots that the labels allow with"):
        train(Settings(**SMALL), ONLY_TRAIN, bare)
