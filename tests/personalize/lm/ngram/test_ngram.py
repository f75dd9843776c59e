"""N-gram models: proper distributions, the same after ARPA, exact normalisation."""

import gzip
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.ngram.files import read_arpa, write_arpa
from sottovoce.personalize.lm.ngram.model import END, START, NGramModel
from sottovoce.personalize.lm.ngram.training import perplexity, train_ngram
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vocabulary

TEXT = ["call mum now", "call dad", "call mum", "hang up now", "please call mum", "up up and away"]
WORDS = Vocabulary.from_text(TEXT, size=8, listed=["hull"])


def model(order: int = 3) -> NGramModel:
    return train_ngram(TEXT, WORDS, order)


def slow_log_probability(model: NGramModel, history: list[int], word: int) -> float:
    """The definition of back-off, one n-gram at a time."""
    history = [place for place in history if place >= 0]
    size = len(model.words)
    for length in range(len(history), -1, -1):
        context = history[len(history) - length :]
        rows = [0] if not context else [int(model.orders[0].find(np.array(context[:1]))[0])]
        for depth, place in enumerate(context[1:], 1):
            rows = [int(model.orders[depth].find(np.array([rows[0] * size + place]))[0])]
            if rows[0] < 0:
                break
        if rows[0] < 0:
            continue
        key = word if not context else rows[0] * size + word
        found = int(model.orders[length].find(np.array([key]))[0])
        if found >= 0:
            return float(model.orders[length].log_probability[found])
        return float(
            model.orders[length - 1].log_backoff[rows[0]]
            + slow_log_probability(model, context[1:], word)
        )
    raise AssertionError("every word is a unigram")


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_every_history_has_a_distribution(order: int) -> None:
    found = model(order)
    places = range(-1, len(found.words))
    histories = [h for h in itertools.product(places, repeat=order - 1) if list(h) == sorted(
        h, key=lambda place: place >= 0)]  # fmt: skip
    words = np.arange(len(found.words))
    for history in histories[:: max(1, len(histories) // 40)]:
        rows = np.tile(np.array(history, dtype=np.int64), (len(words), 1))
        logs = found.log_probabilities(rows.reshape(len(words), order - 1), words)
        assert np.exp(logs).sum() == pytest.approx(1, abs=1e-9)
        slow = [slow_log_probability(found, list(history), word) for word in words.tolist()]
        assert np.allclose(logs, slow)


def test_longer_histories_fit_better_and_unknown_words_cost() -> None:
    assert perplexity(model(3), TEXT) < perplexity(model(2), TEXT) < perplexity(model(1), TEXT)
    known, unknown = model().score([["call", "mum"], ["call", "zebra"]])
    assert known > unknown > -30
    assert model().score([]) == []


@pytest.mark.parametrize("order", [1, 2, 3])
def test_normalisation_is_exact(order: int) -> None:
    found = model(order)
    factors = np.random.default_rng(0).normal(size=len(found.vocabulary))
    said = [i for i, word in enumerate(found.words) if word not in (START, END)]
    full = np.zeros(len(found.words))
    full[said] = factors
    for sentence in (["call", "mum", "now"], ["up", "zebra", "call", "call", "dad"], []):
        histories, words, _ = found._events([sentence])
        expected = 0.0
        for history, word in zip(histories, words, strict=True):
            rows = np.tile(history, (len(found.words), 1))
            raised = found.log_probabilities(rows, np.arange(len(found.words))) + full
            expected += raised[word] - np.log(np.exp(raised).sum())
        assert found.score([sentence], factors)[0] == pytest.approx(expected)
        shortcut = found.score([sentence])[0] + full[words].sum()
        assert found.score([sentence], factors, normalise=False)[0] == pytest.approx(shortcut)
    with pytest.raises(InvalidInput, match="log factors"):
        found.score([["call"]], factors[:-1])


@pytest.mark.parametrize("name", ["model.arpa", "model.arpa.gz"])
def test_arpa_there_and_back(tmp_path: Path, name: str) -> None:
    found = model(3)
    write_arpa(tmp_path / name, found)
    back = read_arpa(tmp_path / name)
    sentences = [line.split() for line in [*TEXT, "zebra up call", ""]]
    assert np.allclose(back.score(sentences), found.score(sentences), atol=1e-4)
    assert back.background is None
    assert back.vocabulary.words == found.vocabulary.words


HAND_MADE = """\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-1.0\t<s>\t-0.5
-0.5\t</s>
-0.6\tcall\t-0.25
-0.7\tmum

\\2-grams:
-0.1\t<s> call
-0.2\tcall mum

\\end\\
"""


def test_a_file_of_another_toolkit(tmp_path: Path) -> None:
    path = tmp_path / "lm.arpa"
    path.write_text("made by hand\n\n" + HAND_MADE)
    found = read_arpa(path)
    scores = found.score([["call", "mum"], ["mum", "call"]])
    ln10 = math.log(10)
    assert scores[0] == pytest.approx((-0.1 - 0.2 - 0.5) * ln10)
    assert scores[1] == pytest.approx((-0.5 - 0.7 - 0.6 - 0.25 - 0.5) * ln10)
    assert UNKNOWN in found.words


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("\\end\\", "", "truncated"),
        ("ngram 2=2", "ngram 2=3", "Expected 3 2-grams"),
        ("\\2-grams:", "\\4-grams:", "sections of an ARPA"),
        ("-0.2\tcall mum", "-0.2\tcall dad", "known words"),
        ("-0.2\tcall mum", "loud\tcall mum", "known words and numbers"),
        ("-0.2\tcall mum", "nan\tcall mum", "known words and numbers"),
        ("-0.2\tcall mum", "-0.2", "Expected a 2-gram"),
        ("-0.2\tcall mum", "-0.2\t<s> call", "Expected every 2-gram"),
        ("-0.7\tmum", "-0.7\tcall", "every unigram"),
    ],
)
def test_bad_arpa_files(tmp_path: Path, old: str, new: str, reason: str) -> None:
    path = tmp_path / "lm.arpa.gz"
    with gzip.open(path, "wt") as stream:
        stream.write(HAND_MADE.replace(old, new))
    with pytest.raises(InvalidInput, match=reason):
        read_arpa(path)


def test_trigrams_need_their_first_words(tmp_path: Path) -> None:
    path = tmp_path / "lm.arpa"
    longer = HAND_MADE.replace("ngram 2=2", "ngram 2=2\nngram 3=1").replace(
        "\\end\\", "\\3-grams:\n-0.1\tmum call mum\n\n\\end\\"
    )
    path.write_text(longer)
    with pytest.raises(InvalidInput, match="Expected the prefix"):
        read_arpa(path)


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="got none"):
        train_ngram([""], WORDS)
    with pytest.raises(InvalidInput, match="order >= 1"):
        train_ngram(TEXT, WORDS, 0)
    with pytest.raises(InvalidInput, match="fewer than"):
        train_ngram(TEXT, WORDS, 40)
    with pytest.raises(InvalidInput, match="measure perplexity"):
        perplexity(model(), [])
    with pytest.raises(InvalidInput, match="among the words"):
        NGramModel(("a",), model().orders)
    with pytest.raises(InvalidInput, match="with the model's words"):
        NGramModel(model().words, model().orders, Vocabulary.from_text(["a b"], 3))
