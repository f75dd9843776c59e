import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.nlu.tiny import SCHEMA, UTTERANCES, shake, tiny_bert, tiny_clc

from sottovoce.errors import InvalidInput
from sottovoce.io.run import Run
from sottovoce.nlu.encoders.base import Encoder
from sottovoce.nlu.encoders.bert import Bert, save_encoder
from sottovoce.nlu.encoders.tuning import Tuned, Tuning, tune
from sottovoce.nlu.encoders.whitening import Readout, ReadoutPlan, Whitening
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.runs.run import EARLIER_AUDIT, load_run, save_run

RUN: dict[str, Any] = {"verb": "train", "history": [{"step": 0, "loss": math.inf}]}
TOKENS = [utterance.tokens for utterance in UTTERANCES]


def made(encoder: Encoder, plan: ReadoutPlan | None = None) -> JointModel:
    readout = Readout(encoder.width, encoder.summary_width, plan)
    readout.fit(encoder, TOKENS)
    model = JointModel(SCHEMA, encoder, readout)
    shake(model)
    return model


def same(one: JointModel, other: JointModel) -> None:
    assert other.log_probabilities(UTTERANCES) == pytest.approx(
        one.log_probabilities(UTTERANCES), abs=1e-4
    )
    assert [p.slots for p in other.predict(TOKENS)] == [p.slots for p in one.predict(TOKENS)]


def test_a_clc_run_both_ways(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = made(tiny_clc(), ReadoutPlan(whitening=Whitening.WHITEN, components=5, window=1))
    save_run(tmp_path / "run", model, RUN)
    loaded = load_run(tmp_path / "run")
    same(model, loaded.model)
    assert loaded.schema == SCHEMA
    kept = {name: value for name, value in loaded.run.items() if name != "weights"}
    assert kept == {"verb": "train", "history": [{"step": 0}]}
    assert Run(tmp_path / "run").private_part() == {"history": [{"loss": "inf"}]}
    assert not loaded.model.training
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "README.md",
        "config.json",
        "labels.json",
        "model.safetensors",
        "private",
        "run.json",
        "words.json",
    ]


def test_lora_is_merged_in_the_file_and_not_in_the_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = tiny_bert()
    tune(encoder, Tuning(kind=Tuned.LORA))
    model = made(encoder)
    save_run(tmp_path, model, RUN)
    same(model, load_run(tmp_path).model)
    assert any(".up." in name for name in model.state_dict())


def test_only_what_differs_from_the_public_encoder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    public, run = tmp_path / "public", tmp_path / "run"
    save_encoder(tiny_bert(), public)
    encoder = Bert.load(public)
    tune(encoder, Tuning(kind=Tuned.LAST, layers=1))
    model = made(encoder)
    save_run(run, model, RUN)
    whole = (run / "model.safetensors").stat().st_size
    save_run(run, model, RUN, self_contained=False)
    assert (run / "model.safetensors").stat().st_size < 0.8 * whole
    same(model, load_run(run).model)
    save_encoder(tiny_bert(), public)
    with pytest.raises(InvalidInput, match="as it was when the run was saved"):
        load_run(run)
    with pytest.raises(InvalidInput, match="self-contained"):
        save_run(run, made(tiny_clc()), RUN, self_contained=False)


def test_the_ledger_comes_along(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.jsonl").write_text("facts\n")
    save_run(tmp_path / "run", made(tiny_clc()), RUN, ledger=tmp_path / "elsewhere.jsonl")
    assert (tmp_path / "run" / "ledger.jsonl").read_text() == "facts\n"
    save_run(tmp_path / "run", made(tiny_clc()), RUN, ledger=tmp_path / "run" / "ledger.jsonl")
    assert (tmp_path / "run" / "ledger.jsonl").read_text() == "facts\n"


def test_an_audit_is_of_the_weights_it_was_made_for(tmp_path: Path) -> None:
    model = made(tiny_clc())
    save_run(tmp_path, model, RUN)
    places = (tmp_path / "audit.json", tmp_path / "private/audit.json")
    for place in places:
        place.write_text(json.dumps({"audit": 1, "bounds": [], "attacks": []}))
    save_run(tmp_path, model, RUN)
    assert all(place.is_file() for place in places)
    shake(model)
    save_run(tmp_path, model, RUN)
    assert not any(place.is_file() for place in places)
    assert (tmp_path / "private" / EARLIER_AUDIT).is_file()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    save_run(folder, made(tiny_clc()), RUN)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def changed(content: bytes, **values: Any) -> bytes:
    return json.dumps(json.loads(content) | values).encode()


@pytest.mark.parametrize(
    ("name", "damage", "complaint"),
    [
        ("config.json", lambda _: None, "Expected a run folder"),
        ("config.json", lambda c: c[:50], "Expected JSON"),
        ("config.json", lambda _: b'{"model_type": "bert"}', "has another format"),
        ("config.json", lambda c: changed(c, format=99), "format 1"),
        ("config.json", lambda c: changed(c, files=["../../secret"]), "files in the run folder"),
        ("config.json", lambda c: changed(c, model={"encoder": {"kind": "x"}}), "of kind"),
        ("config.json", lambda c: changed(c, model={}), "cannot be loaded"),
        ("config.json", lambda c: changed(c, weights=3), "cannot be loaded"),
        ("model.safetensors", lambda c: c[:-8], "got other or incomplete weights"),
        ("model.safetensors", lambda _: None, "Expected model.safetensors"),
        ("labels.json", lambda _: None, "Expected labels.json"),
        ("labels.json", lambda c: changed(c, intents=["x"], slots_of=None), "cannot be loaded"),
        ("run.json", lambda _: b"[]", "Expected an object"),
        ("words.json", lambda _: None, "Expected words.json"),
        ("words.json", lambda _: b'["one more"]', "cannot be loaded"),
    ],
)
def test_damage_is_one_sentence(
    tmp_path: Path, stored: dict[str, bytes], name: str, damage: Any, complaint: str
) -> None:
    for each, content in stored.items():
        (tmp_path / each).write_bytes(content)
    load_run(tmp_path)
    replacement = damage(stored[name])
    if replacement is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(replacement)
    with pytest.raises(InvalidInput, match=complaint) as caught:
        load_run(tmp_path)
    assert "\n" not in str(caught.value)
