"""Private training that starts from public sample utterances."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.nlu.small import SMALL, small_parts

from sottovoce.corpora import write
from sottovoce.corpora.splits import Parts
from sottovoce.corpora.synthetic import generate
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.clc import Clc, ClcShape
from sottovoce.nlu.encoders.words import Words
from sottovoce.nlu.fit import warm_start as start
from sottovoce.nlu.fit.optimisation import Optimisation
from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.fit.warm_start import read_samples, warm_start_from
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.runs import experiment
from sottovoce.nlu.runs.experiment import evaluate, train
from sottovoce.nlu.schema import Schema
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.training import Method

PARTS = small_parts()
SCHEMA = Schema.of([*PARTS.train, *PARTS.valid, *PARTS.test], declared=True)
CALLS = """
[slots]
contact = "person"
[intents.redial]
lines = "[call|ring] {contact} again"
[intents.sing]
lines = "la la la"
"""


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.jsonl"
    write(path, generate("communication", size=12_000, seed=99))
    return path


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "STEPS", 3)


def settings(samples: Path, **more: Any) -> Settings:
    private: dict[str, Any] = {"method": Method.DP_SGD, "noise_multiplier": 1.0}
    return Settings(**SMALL | private | more, samples=str(samples), seed=3)


def test_samples_are_learnt(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "STEPS", 60)
    torch.manual_seed(1)
    shape = ClcShape(word_width=32, character_width=3, filters=4, hidden=16, layers=1)
    model = JointModel(SCHEMA, Clc(Words.hashed(2000), shape))
    before = evaluate(model, PARTS.valid)["intent_accuracy"]["value"]
    found = read_samples(samples, SCHEMA)
    warm_start_from(found, model, Optimisation(learning_rate=0.03), virtual_batch=64, seed=1)
    after = evaluate(model, PARTS.valid)["intent_accuracy"]["value"]
    assert after > before + 0.2


@pytest.mark.usefixtures("briefly")
def test_samples_cost_nothing_and_are_assumed_to_be_public(samples: Path) -> None:
    only_train = Parts(name="calls", train=PARTS.train)
    asked = settings(samples)
    with_samples = train(asked, only_train, SCHEMA)
    without = train(replace(asked, samples=None), only_train, SCHEMA)
    found, plain = (Guarantee.from_json(t.run["guarantee"]) for t in (with_samples, without))
    assert found.epsilon == plain.epsilon
    (added,) = set(found.assumptions) - set(plain.assumptions)
    assert added == start.PUBLIC_SAMPLES.format(name="samples.jsonl")
    assert with_samples.run["samples"]["name"] == "samples.jsonl"
    assert "samples" not in without.run


def test_a_grammar_is_drawn_from_and_other_labels_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "calls.toml"
    path.write_text(CALLS)
    found = read_samples(path, SCHEMA)
    assert {u.intent for u in found.utterances} == {"redial"}
    assert len(found.utterances) + found.left_out == start.DRAWN
    assert found.left_out > start.DRAWN / 3


def test_all_grammars_of_a_folder_are_drawn_from(tmp_path: Path) -> None:
    (tmp_path / "first.toml").write_text(CALLS)
    (tmp_path / "second.toml").write_text(CALLS.replace("again", "once more"))
    found = read_samples(tmp_path, SCHEMA)
    assert {u.tokens[-1] for u in found.utterances} == {"again", "more"}
    assert len(found.utterances) + found.left_out == 2 * start.DRAWN
    assert found.name == tmp_path.name


def test_samples_with_none_of_the_labels_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "songs.toml"
    path.write_text('[intents.sing]\nlines = "la la la"\n')
    with pytest.raises(InvalidInput, match="got 8,000 with others"):
        read_samples(path, SCHEMA)


@pytest.mark.usefixtures("briefly")
def test_a_resumed_run_learns_samples_once(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt = []

    def counting(*given: Any, **more: Any) -> None:
        learnt.append(given)
        start.warm_start_from(*given, **more)

    monkeypatch.setattr(experiment, "warm_start_from", counting)
    only_train = Parts(name="calls", train=PARTS.train)
    asked = settings(samples, epochs=4)
    steps = iter(range(100))
    stop_early = train(
        asked, only_train, SCHEMA, folder=tmp_path, should_stop=lambda: next(steps) >= 2
    )
    assert stop_early.fitted.stopped
    assert len(learnt) == 1
    finished = train(asked, only_train, SCHEMA, folder=tmp_path, resume=True)
    assert not finished.fitted.stopped
    assert len(learnt) == 1


@pytest.mark.usefixtures("briefly")
def test_a_run_that_was_killed_among_its_samples_learns_them_again(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    only_train = Parts(name="calls", train=PARTS.train)
    monkeypatch.setattr(experiment, "warm_start_from", killed)
    with pytest.raises(KeyboardInterrupt):
        train(settings(samples), only_train, SCHEMA, folder=tmp_path)
    learnt = []
    monkeypatch.setattr(experiment, "warm_start_from", lambda *given, **_: learnt.append(given))
    train(settings(samples), only_train, SCHEMA, folder=tmp_path, resume=True)
    assert len(learnt) == 1
