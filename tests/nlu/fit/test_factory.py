"""Building models from settings: vocabularies, sizes, and encoders that are read by statistics."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.nlu.small import SMALL, small_parts
from tests.nlu.tiny import tiny_bert

from sottovoce.corpora import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.bert import Bert, save_encoder
from sottovoce.nlu.encoders.clc import Clc
from sottovoce.nlu.encoders.tuning import tuning_of
from sottovoce.nlu.encoders.whitening import ReadoutPlan, Whitening
from sottovoce.nlu.encoders.words import WordSource
from sottovoce.nlu.fit.factory import (
    LEDGER,
    PUBLIC_VECTORS,
    PUBLIC_WORDS,
    VOCABULARY,
    Built,
    build,
)
from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.pretraining.job import fit_readout, readout_files
from sottovoce.nlu.schema import Schema
from sottovoce.privacy.facts import BoundedRelease
from sottovoce.privacy.ledger import Ledger
from sottovoce.training import Method

PARTS = small_parts()
OWNERS = [str(number) for number in range(len(PARTS.train))]


def built(settings: Settings, folder: Path | None = None) -> Built:
    plan = settings.plan(len(PARTS.train))
    return build(settings, Schema.of(PARTS.train), PARTS.train, OWNERS, plan, folder)


def encoder_of(made: Built) -> Clc:
    encoder = made.model.encoder
    assert isinstance(encoder, Clc)
    return encoder


def test_sizes_of_the_clc() -> None:
    shape = encoder_of(built(Settings(**SMALL))).shape
    assert (shape.hidden, shape.layers, shape.word_width) == (8, 1, 8)
    assert encoder_of(built(Settings(**SMALL | {"vocabulary": "hashed-7"}))).vocabulary.size == 8
    of_paper = {"hidden": None, "layers": None, "vocabulary": "hashed-7"}
    shape = encoder_of(built(Settings(**SMALL | of_paper))).shape
    assert (shape.hidden, shape.layers) == (384, 2)


@pytest.mark.parametrize("vocabulary", ["hashed-", "hashed-many", "hashed-0", "no such file"])
def test_vocabularies_that_are_none(vocabulary: str) -> None:
    with pytest.raises(InvalidInput, match="Expected"):
        built(Settings(**SMALL | {"vocabulary": vocabulary}))


def test_where_words_come_from(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("call\nanswer\n")
    (tmp_path / "empty.txt").write_text("")
    public = built(Settings(**SMALL | {"vocabulary": str(tmp_path / "words.txt")}))
    assert public.assumptions == (PUBLIC_WORDS,)
    assert encoder_of(public).vocabulary.listed == ("call", "answer")
    assert public.model.encoder.uncovered == ()
    private = built(Settings(**SMALL | {"vocabulary": "private"}))
    assert "vocabulary, read off the private text" in private.model.encoder.uncovered[0]
    hashed = built(Settings(**SMALL))
    assert (hashed.assumptions, hashed.model.encoder.uncovered) == ((), ())
    with pytest.raises(InvalidInput, match="Expected words in"):
        built(Settings(**SMALL | {"vocabulary": str(tmp_path / "empty.txt")}))


def test_vectors_are_public_and_fixed_under_clipping(tmp_path: Path) -> None:
    path = tmp_path / "some.vec"
    path.write_text("2 3\ncall 1 0 0\nanswer 0 1 0\n")
    sizes = SMALL | {"vocabulary": "hashed", "word_width": None, "vectors": str(path)}
    made = built(Settings(**sizes, method=Method.DP_SGD, noise_multiplier=1.0))
    assert made.assumptions == (PUBLIC_VECTORS,)
    assert not encoder_of(made).words.weight.requires_grad
    assert encoder_of(built(Settings(**sizes))).words.weight.requires_grad


def test_a_private_vocabulary_is_paid_once(tmp_path: Path) -> None:
    settings = Settings(
        **SMALL | {"vocabulary": "dp"}, method=Method.DP_SGD, epsilon=50.0, vocabulary_epsilon=40.0
    )
    made = built(settings, tmp_path)
    words = encoder_of(made).vocabulary
    assert words.source is WordSource.DP
    assert words.listed  # so large an epsilon finds some
    assert list(words.listed) == json.loads((tmp_path / "private" / VOCABULARY).read_text())
    (entry,) = Ledger.read(tmp_path / LEDGER).entries
    assert isinstance(entry.fact, BoundedRelease)
    assert (entry.fact.epsilon, entry.count) == (40.0, 1)
    # What is left goes to the training: more noise than if it had all.
    assert made.plan.noise_multiplier > settings.plan(len(OWNERS)).noise_multiplier
    assert made.plan.guarantee().epsilon <= 10.0
    again = built(settings, tmp_path)
    assert encoder_of(again).vocabulary.listed == words.listed
    assert len(Ledger.read(tmp_path / LEDGER).entries) == 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "private method for a private vocabulary"),
        ({"method": Method.DP_SGD, "noise_multiplier": 1.0}, "private vocabulary, got none"),
        (
            {"method": Method.DP_SGD, "epsilon": 1.0, "vocabulary_epsilon": 1.0},
            "less than 1 for the vocabulary, got 1",
        ),
    ],
)
def test_a_vocabulary_that_nobody_can_pay(
    tmp_path: Path, given: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        built(Settings(**{**SMALL, "vocabulary": "dp", **given}), tmp_path)
    assert not (tmp_path / LEDGER).exists()


def test_a_vocabulary_needs_a_folder() -> None:
    settings = Settings(**SMALL | {"vocabulary": "dp"}, method=Method.DP_SGD, epsilon=1.0)
    with pytest.raises(InvalidInput, match="run folder and a single process"):
        built(settings)


@pytest.mark.parametrize("text", ["", "last", "last-two", "lora-x", "froze", "frozen-2"])
def test_tunings_that_are_none(text: str) -> None:
    with pytest.raises(InvalidInput, match="Expected the tuning"):
        tuning_of(text)


def test_an_encoder_without_statistics_gets_public_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.nlu.fit.factory.PUBLIC_UTTERANCES", 8)
    torch.manual_seed(0)
    save_encoder(tiny_bert(positions=64), tmp_path)
    private = Settings(method=Method.DP_SGD, noise_multiplier=1.0, encoder=str(tmp_path))
    made = built(private)
    assert isinstance(made.model.encoder, Bert)
    # Two layers are fewer than the recipe reads of MiniLM.
    assert made.model.encoder.layers == (1, 2)
    assert made.model.readout.plan.whitening is Whitening.WHITEN
    assert made.model.encoder.frozen
    assert made.assumptions == (f"the encoder {tmp_path} was made from public text only",)
    # The statistics do not depend on the private text: other utterances, the same readout.
    other = tuple(Utterance(tokens=("jazz",), slots=("O",), intent=u.intent) for u in PARTS.train)
    plan = private.plan(len(OWNERS))
    again = build(private, Schema.of(PARTS.train), other, OWNERS, plan, None).model.readout
    for name, tensor in made.model.readout.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])
    full = built(replace(private, tuning="full")).model
    assert not full.encoder.frozen
    assert full.readout.plan.whitening is Whitening.NONE


def test_an_adapted_encoder_brings_its_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = tiny_bert(positions=64)
    save_encoder(encoder, tmp_path)
    plan = ReadoutPlan(whitening=Whitening.STANDARDISE)
    public = [u.tokens for u in PARTS.valid]
    read, readout = fit_readout(encoder, public, plan, layers=(0, 2), summary="both")
    for name, content in readout_files(read, readout).items():
        (tmp_path / name).write_bytes(content)
    made = built(Settings(method=Method.DP_SGD, noise_multiplier=1.0, encoder=str(tmp_path)))
    assert isinstance(made.model.encoder, Bert)
    assert made.model.encoder.layers == (0, 2)
    assert made.model.readout.plan == plan
