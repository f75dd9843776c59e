"""A compiled n-gram scores like its ARPA file, and is refused if truncated."""

import json
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm import language_model
from sottovoce.personalize.lm.language_model import (
    ARPA,
    COMPILED,
    compile_ngram,
    load_lm,
    save_ngram,
)
from sottovoce.personalize.lm.ngram.files import read_arpa, read_compiled
from sottovoce.personalize.lm.ngram.model import NGramModel
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import Vocabulary

RNG = np.random.default_rng(5)
TEXT = [" ".join(f"w{i}" for i in RNG.zipf(1.5, 8) if i < 60) for _ in range(300)]
MODEL = train_ngram(TEXT, Vocabulary.from_text(TEXT, size=40), 3)
SENTENCES = [line.split() for line in [*TEXT[:50], "", "w1 xylophone w2"]]
FACTORS = RNG.normal(size=len(MODEL.vocabulary))


def scores(model: language_model.LanguageModel) -> list[float]:
    return [*model.score(SENTENCES), *model.score(SENTENCES, FACTORS)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_ngram(tmp_path / "lm", MODEL)
    return tmp_path / "lm"


def test_scores_are_equal_to_the_last_bit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "kept").write_bytes((folder / COMPILED).read_bytes())
    (folder / COMPILED).unlink()
    from_arpa = scores(load_lm(folder))
    (folder / "kept").rename(folder / COMPILED)

    def refuse(_: Path) -> NGramModel:
        raise AssertionError("the ARPA file was read")

    monkeypatch.setattr(language_model, "read_arpa", refuse)
    assert scores(load_lm(folder)) == from_arpa


def test_numbers_are_mapped_and_not_read(folder: Path) -> None:
    model = read_compiled(folder / COMPILED)
    assert model is not None
    assert model.words == MODEL.words
    for order in model.orders:
        assert isinstance(order.keys.base, np.memmap)
        assert not order.keys.flags.writeable


def test_another_arpa_file_beside_it_wins(folder: Path, tmp_path: Path) -> None:
    other = train_ngram(TEXT[:200], MODEL.vocabulary, 3)
    save_ngram(tmp_path / "other", other)
    (folder / ARPA).write_bytes((tmp_path / "other" / ARPA).read_bytes())
    assert scores(load_lm(folder)) == scores(load_lm(tmp_path / "other"))


def test_a_device_needs_no_arpa_file(folder: Path, tmp_path: Path) -> None:
    model = load_lm(folder)
    assert isinstance(model, NGramModel)
    compile_ngram(tmp_path / "device", model)
    assert not (tmp_path / "device" / ARPA).exists()
    assert scores(load_lm(tmp_path / "device")) == scores(model)
    with pytest.raises(InvalidInput, match="without a model"):
        compile_ngram(folder, model)


def test_a_model_of_others_keeps_its_own_background(folder: Path, tmp_path: Path) -> None:
    theirs = read_arpa(folder / ARPA)
    compile_ngram(tmp_path / "device", theirs)
    assert scores(load_lm(tmp_path / "device")) == scores(theirs)


def test_what_is_cut_short_or_altered_in_its_sizes_is_refused(folder: Path) -> None:
    path = folder / COMPILED
    content = path.read_bytes()
    first, second, rest = content.split(b"\n", 2)
    about = json.loads(second)
    wrong = [
        b"", content[:5], content[:40], content[:-1], content + b"x",
        b"\n".join([first, b"{}", rest]), b"\n".join([first, b"[]", rest]),
        *(
            b"\n".join([first, json.dumps({**about, "orders": sizes}).encode(), rest])
            for sizes in ([], [-1], about["orders"][::-1], ["many"], None)
        ),
    ]  # fmt: skip
    for each in wrong:
        path.write_bytes(each)
        with pytest.raises(InvalidInput, match="compiled n-gram"):
            load_lm(folder)
