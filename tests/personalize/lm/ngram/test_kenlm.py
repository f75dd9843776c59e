"""KenLM gives the scores of our own reader, adapted and normalised too."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.language_model import load_lm
from sottovoce.personalize.lm.ngram.files import MAGIC, KenLM, read_arpa, write_arpa
from sottovoce.personalize.lm.ngram.model import END, NGramModel
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vocabulary

pytest.importorskip("kenlm", reason="KenLM is not installed (extra `kenlm`)")

TEXT = ["call mum now", "call dad", "call mum", "hang up now", "please call mum", "hang up"] * 2
WORDS = Vocabulary.from_text(TEXT, size=20)
SENTENCES = [["call", "mum"], ["call", "mum", "now"], ["call", "zebra", "up"], [], ["mum"]]


@pytest.fixture(scope="module")
def arpa(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lm") / "model.arpa"
    write_arpa(path, train_ngram(TEXT, WORDS, 3))
    return path


def one_by_one(model: NGramModel, sentence: list[str], factors: np.ndarray) -> float:
    """Every event normalised by querying every word."""
    spoken = (*WORDS.words, END)
    raised = dict(zip(WORDS.words, factors.tolist(), strict=True)) | {END: 0.0}
    said: list[str] = []
    total = 0.0
    for word in (*sentence, END):
        scores = [_after(model, said, other) + raised[other] for other in spoken]
        place = spoken.index(word if word in raised else UNKNOWN)
        total += scores[place] - float(np.logaddexp.reduce(scores))
        said.append(word)
    return total


def _after(model: NGramModel, said: list[str], word: str) -> float:
    values, _ = model.score_words([[*said, word] if word != END else said])
    return float(values[len(said)])


def test_the_scores_of_our_own_reader(arpa: Path) -> None:
    ours = read_arpa(arpa)
    theirs = load_lm(arpa, kenlm=True)
    assert isinstance(theirs, KenLM)
    assert theirs.vocabulary.words == ours.vocabulary.words
    assert np.allclose(theirs.score(SENTENCES), ours.score(SENTENCES), atol=1e-4)
    assert theirs.score([]) == []


@pytest.mark.parametrize("normalise", [True, False])
def test_adapted_scores(arpa: Path, normalise: bool) -> None:
    ours, theirs = read_arpa(arpa), load_lm(arpa, WORDS, kenlm=True)
    order = [WORDS.index[word] for word in ours.vocabulary.words]
    factors = np.random.default_rng(2).normal(size=len(WORDS))
    found = theirs.score(SENTENCES, factors, normalise=normalise)
    expected = ours.score(SENTENCES, factors[order], normalise=normalise)
    assert np.allclose(found, expected, atol=1e-4)
    if normalise:
        slow = [one_by_one(ours, sentence, factors) for sentence in SENTENCES]
        assert np.allclose(found, slow, atol=1e-3)
    else:
        assert not np.allclose(found, theirs.score(SENTENCES, factors), atol=1e-3)


def test_words_beyond_the_vocabulary_have_the_factor_of_the_unknown(arpa: Path) -> None:
    few = Vocabulary(("call", "mum", UNKNOWN), np.array([0.4, 0.4, 0.2]))
    model = KenLM(arpa, few)
    same = model.score(SENTENCES, np.full(3, 0.7), normalise=False)
    lengths = [0.7 * len(sentence) for sentence in SENTENCES]
    assert np.allclose(np.subtract(same, lengths), model.score(SENTENCES))
    raised = {"call": 1.0, "mum": -2.0}
    ours = read_arpa(arpa)
    whole = np.array([raised.get(word, 0.5) for word in ours.vocabulary.words])
    found = model.score(SENTENCES, np.array([1.0, -2.0, 0.5]))
    assert np.allclose(found, ours.score(SENTENCES, whole), atol=1e-4)


def test_a_binary_file(arpa: Path, tmp_path: Path) -> None:
    build = shutil.which("build_binary")
    if build is None:
        pytest.skip("build_binary of KenLM is not installed")
    path = tmp_path / "model.bin"
    subprocess.run([build, arpa, path], check=True, capture_output=True)
    with pytest.raises(InvalidInput, match="Expected a public vocabulary"):
        load_lm(path)
    found = load_lm(path, WORDS).score(SENTENCES)
    assert np.allclose(found, read_arpa(arpa).score(SENTENCES), atol=1e-4)


def test_bad_input(arpa: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.write_bytes(MAGIC + b" and nothing else")
    with pytest.raises(InvalidInput, match="Expected a KenLM model"):
        load_lm(damaged, WORDS)
    with pytest.raises(InvalidInput, match="log factors"):
        KenLM(arpa, WORDS).score(SENTENCES, np.zeros(2))
    with pytest.raises(InvalidInput, match="Expected no vocabulary"):
        load_lm(arpa, WORDS)
