"""Settings: contradictions, defaults, and the plan they make."""

import json
from typing import Any

import pytest

from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit.recipes import ModelKind
from sottovoce.nlu.fit.settings import Settings
from sottovoce.privacy.facts import Sampling
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.recipes import Decay, NoiseSplit
from sottovoce.training import Method

PRIVATE = Settings(method=Method.DP_SGD, noise_multiplier=1.0)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"method": Method.DP_SGD, "epsilon": 3, "noise_multiplier": 1}, "got both"),
        ({"method": "sgd", "epsilon": 3}, "private method for an epsilon, got sgd"),
        ({"clipping": "bogus"}, "clipping to be one of flat, automatic, per-layer, got 'bogus'"),
        ({"method": "DP-SGD"}, "method to be one of sgd, dp-sgd"),
        ({"unit": "speaker"}, "unit to be one of"),
        ({"method": "dp-sgd", "epsilon": "3"}, "epsilon to be a number, got '3'"),
        ({"method": "dp-sgd", "epsilon": True}, "epsilon to be a number, got True"),
        ({"epochs": True}, "epochs to be a whole number"),
        ({"method": "edp-sgd", "as_printed": "no"}, "as_printed to be True or False, got 'no'"),
        ({"optimizer": "lion"}, "optimizer to be one of adam, sgd"),
        ({"schedule": "step"}, "schedule to be one of"),
        ({"epsilon": 3}, "private method for an epsilon, got sgd"),
        ({"noise_multiplier": 1}, "private method for a noise multiplier, got sgd"),
        ({"decay": Decay.LINEAR}, "private method for a decay of the noise, got sgd"),
        ({"method": Method.EDP_SGD, "as_printed": True, "epsilon": 3}, "as printed, got an eps"),
        ({"method": Method.DP_SGD, "as_printed": True}, "edp-sgd with as_printed, got dp-sgd"),
        ({"method": Method.DP_SGD, "epsilon": 0}, "epsilon > 0"),
        ({"method": Method.DP_SGD, "epsilon": float("nan")}, "epsilon to be finite"),
        ({"method": Method.DP_SGD, "noise_multiplier": -1}, "noise_multiplier > 0"),
        ({"delta": 0}, r"delta in \(0, 1\), got 0"),
        ({"delta": 1.0}, r"delta in \(0, 1\), got 1"),
        ({"population": 0}, "population >= 1"),
        ({"epochs": 0}, "epochs >= 1"),
        ({"workers": 0}, "workers >= 1"),
        ({"tau": -0.1}, "tau >= 0"),
        ({"clip_norm": 0}, "clip_norm > 0"),
        ({"learning_rate": 0}, "learning_rate > 0"),
        ({"averaged": 1.0}, "averaged from 0 to below 1"),
        ({"vectors": "a.vec"}, "no vectors with the model bert, got one"),
        ({"vocabulary": "dp"}, "no vocabulary with the model bert"),
        ({"hidden": 3}, "no hidden with the model bert"),
        ({"model": ModelKind.CLC, "tuning": "lora"}, "no tuning with the model clc, got one"),
        ({"model": ModelKind.CLC, "vectors": "a.vec", "vocabulary": "dp"}, "got both"),
        ({"model": ModelKind.CLC, "vocabulary_epsilon": 1.0}, "one for hashed"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Settings(**given)


@pytest.mark.parametrize(
    "data", [{"frobnicate": 1}, {"method": "adam"}, {"epochs": "ten"}, {"epochs": 1.5},
             {"epsilon": "3", "method": "dp-sgd"}, {"population": [3]}],
)  # fmt: skip
def test_a_bad_file_is_refused_in_a_sentence(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="Expected"):
        Settings.from_json(data)


def test_settings_survive_json() -> None:
    settings = Settings(
        method=Method.EDP_SGD, decay=Decay.LINEAR, tau=0.3, unit=Unit.USER, clip_norm=0.1
    )
    again = Settings.from_json(json.loads(json.dumps(settings.to_json())))
    assert again == settings
    assert again.method is Method.EDP_SGD
    assert Settings.from_json({}) == Settings()  # files of earlier versions lack what is new


@pytest.mark.parametrize("population", [1, 2, 60, 4478, 13_084, 1_000_000])
def test_delta_is_a_tenth_of_one_person(population: int) -> None:
    delta = PRIVATE.delta_for(population)
    exact = 0.1 / max(100, population)
    assert 0.9 * exact <= delta <= exact
    assert delta == float(f"{delta:.1e}")  # two digits, without the noise of a product
    assert Settings(delta=1e-6).delta_for(population) == 1e-6


def test_an_epsilon_is_kept() -> None:
    plan = Settings(method=Method.DP_SGD, epsilon=3).plan(5000)
    assert 2.99 < plan.guarantee().epsilon <= 3
    assert plan.batch_size == 250  # one in twenty, by the recipe
    assert plan.neighbours is Relation.ADD_OR_REMOVE
    declared = Settings(method=Method.DP_SGD, noise_multiplier=2.0, population=8000).plan(5000)
    assert (declared.population, declared.noise_multiplier) == (8000, 2.0)
    with pytest.raises(InvalidInput, match="at least the 5,000 examples in the data, got 800"):
        Settings(method=Method.DP_SGD, noise_multiplier=2.0, population=800).plan(5000)


def test_a_batch_is_never_more_than_everybody() -> None:
    assert Settings(batch_size=500).plan(60).batch_size == 60
    assert Settings().plan(3).batch_size == 3


def test_a_decay_needs_its_name() -> None:
    settings = Settings(method=Method.EDP_SGD, noise_multiplier=1.0, tau=0.5)
    assert settings.plan(100).tau == 0
    decayed = Settings(
        method=Method.EDP_SGD, noise_multiplier=1.0, tau=0.5, decay=Decay.LINEAR
    ).plan(100)
    assert decayed.noise_multiplier_of(2) == pytest.approx(0.5)


def test_as_printed_is_the_paper_to_the_letter() -> None:
    settings = Settings(method=Method.EDP_SGD, as_printed=True, noise_multiplier=1.0, workers=4)
    plan = settings.plan(100)
    assert plan.noise_split is NoiseSplit.PAPER
    assert plan.sampling is Sampling.SHUFFLE
    assert plan.neighbours is settings.relation is Relation.REPLACE_ONE
    assert not plan.guarantee().holds


def test_what_is_left_open_comes_from_the_recipe() -> None:
    assert Settings(method=Method.DP_SGD).filled().tuning == "frozen"
    assert Settings().filled().tuning == "full"
    assert Settings(learning_rate=0.7).filled().learning_rate == 0.7
    assert Settings(learning_rate=0.7, averaged=0.25).optimisation().averaged == 0.25


def test_text_is_as_good_as_a_member() -> None:
    typed = Settings(method="dp-sgd", unit="user", clipping="flat", epsilon=3)  # type: ignore[arg-type]
    assert typed.method is Method.DP_SGD
    assert typed.unit is Unit.USER
    assert typed.plan(5000).method is Method.DP_SGD


@pytest.mark.parametrize(("population", "delta"), [(1, 0.2), (40, 3e-3), (5000, 1e-4)])
def test_a_delta_that_allows_publishing_a_record_is_refused(population: int, delta: float) -> None:
    with pytest.raises(InvalidInput, match="publishing a record outright"):
        Settings(method=Method.DP_SGD, noise_multiplier=1.0, delta=delta).plan(population)
    assert Settings(delta=delta).plan(population).delta == delta  # nothing is claimed
