"""The fast tagger against plain references: CRFsuite itself, and every sequence of small cases."""

from itertools import islice, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.corpora import Utterance, read
from sottovoce.corpora.synthetic import DOMAINS, generate
from sottovoce.deid.detect import Tagger
from sottovoce.deid.detect.crf import decoding
from sottovoce.deid.detect.crf.decoding import Emissions, Steps, best_labels, chances, read_weights
from sottovoce.deid.detect.crf.features import Features
from sottovoce.deid.detect.crf.shipping import written
from sottovoce.deid.detect.crf.tagger import runs
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.deid.detect.words import words_of
from sottovoce.errors import InvalidInput

SPOKEN = [u for domain in DOMAINS for u in generate(domain, size=100, seed=31)]
CORPUS = [*SPOKEN, *map(written, SPOKEN[::5])]
CAUTION = 0.999


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return Tagger.shipped().with_caution(0.0)


def words(utterance: Utterance) -> list[str]:
    return [utterance.text[word.start : word.end] for word in words_of(utterance.text)]


class Reference:
    """CRFsuite on strings, one sentence at a time."""

    def __init__(self, tagger: Tagger) -> None:
        self._crf: Any = pycrfsuite.Tagger()
        self._crf.open_inmemory(tagger._model)
        self._features = Features()

    def labels(self, sentence: list[str]) -> list[str]:
        told: list[str] = self._crf.tag(self._features.of(sentence))
        return told

    def chances(self, sentence: list[str]) -> list[list[float]]:
        self._crf.set(self._features.of(sentence))
        names = self._crf.labels()
        return [[self._crf.marginal(n, place) for n in names] for place in range(len(sentence))]

    def cautious(self, sentence: list[str], caution: float) -> list[str]:
        names = self._crf.labels()
        outside = names.index("O")
        told = self.labels(sentence)
        for place, row in enumerate(self.chances(sentence)):
            if told[place] == "O" and row[outside] < caution:
                row[outside] = -1.0
                told[place] = names[int(np.argmax(row))]
        return told


def fast_labels(tagger: Tagger, sentences: list[list[str]]) -> list[str]:
    return [tagger._weights.labels[label] for label in tagger._labels(sentences).tolist()]


def test_the_labels_are_those_of_crfsuite(tagger: Tagger) -> None:
    reference = Reference(tagger)
    sentences = [words(utterance) for utterance in CORPUS]
    plain = [label for sentence in sentences for label in reference.labels(sentence)]
    assert fast_labels(tagger, sentences) == plain
    assert len({*plain}) > 15


def test_the_labels_of_real_news_are_those_of_crfsuite(shared_data: Path, tagger: Tagger) -> None:
    news = list(islice(read(shared_data / "ner" / "conll2003" / "valid.jsonl"), 150))
    reference = Reference(tagger)
    sentences = [words(utterance) for utterance in news]
    plain = [label for sentence in sentences for label in reference.labels(sentence)]
    assert fast_labels(tagger, sentences) == plain


def test_chances_and_caution_are_those_of_crfsuite(tagger: Tagger) -> None:
    reference = Reference(tagger)
    sentences = [words(utterance) for utterance in CORPUS[::10]]
    steps = Steps.of([len(sentence) for sentence in sentences])
    found = np.empty((len(steps.order), len(tagger._weights.labels)))
    found[steps.order] = chances(
        tagger._emissions.of(sentences)[steps.order], tagger._weights.transitions, steps
    )
    plain = [row for sentence in sentences for row in reference.chances(sentence)]
    assert found == pytest.approx(np.array(plain), abs=1e-9)
    wary = Tagger(tagger._model, tagger.about, caution=CAUTION)
    careful = [label for each in sentences for label in reference.cautious(each, CAUTION)]
    assert fast_labels(wary, sentences) == careful
    assert careful != fast_labels(tagger, sentences)


@given(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    labels=st.integers(1, 4),
    sparse=st.booleans(),
    seed=st.integers(0, 999),
)
def test_every_sequence_tried_gives_the_same(
    lengths: list[int], labels: int, sparse: bool, seed: int
) -> None:
    drawn = np.random.default_rng(seed)
    scores = drawn.normal(scale=3, size=(sum(lengths), labels))
    moves = drawn.normal(scale=3, size=(labels, labels))
    if sparse:
        # Labels that few others lead to take a short cut.
        moves = np.where(drawn.random(moves.shape) < 0.4, np.abs(moves), 0.0)
    steps = Steps.of(lengths)
    told, shares = np.empty(len(scores), dtype=int), np.empty_like(scores)
    told[steps.order] = best_labels(scores[steps.order], moves, steps)
    shares[steps.order] = chances(scores[steps.order], moves, steps)
    start = 0
    for length in lengths:
        own = scores[start : start + length]
        paths = list(product(range(labels), repeat=length))
        totals = np.array(
            [
                sum(own[place, label] for place, label in enumerate(path))
                + sum(moves[pair] for pair in pairwise(path))
                for path in paths
            ]
        )
        assert tuple(told[start : start + length]) == paths[int(totals.argmax())]
        weights = np.exp(totals - totals.max())
        for place in range(length):
            for label in range(labels):
                share = weights[[path[place] == label for path in paths]].sum() / weights.sum()
                assert shares[start + place, label] == pytest.approx(share, abs=1e-9)
        start += length


@pytest.mark.parametrize("lengths", [[1], [2, 1]])
def test_decoding_leaves_the_scores_as_they_are(lengths: list[int]) -> None:
    """Caution looks at them once more."""
    scores = np.random.default_rng(1).normal(size=(sum(lengths), 3))
    before = scores.copy()
    best_labels(scores, np.ones((3, 3)), Steps.of(lengths))
    assert (scores == before).all()


def test_chances_of_extreme_scores_stay_chances() -> None:
    steps = Steps.of([3, 1])
    scores = np.array([[900.0, -900.0], [-900.0, 900.0], [0.0, 0.0], [5e3, 5e3]])
    found = chances(scores, np.array([[0.0, -40.0], [40.0, 0.0]]), steps)
    assert np.isfinite(found).all()
    assert found.sum(axis=1) == pytest.approx(np.ones(4))


def test_a_full_memory_starts_afresh(tagger: Tagger, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [words(utterance) for utterance in CORPUS[:60]]
    at_once = Emissions(tagger._weights).of(sentences)
    monkeypatch.setattr(decoding, "_MOST_KEPT", 10)
    monkeypatch.setattr(decoding, "_BLOCK", 7)
    small = Emissions(tagger._weights)
    assert small.of(sentences) == pytest.approx(at_once, abs=0)
    assert len(small._known) < 10 + 7 + 5


def test_batches_do_not_change_what_is_found(
    tagger: Tagger, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = tagger.find(CORPUS)
    assert [tagger.find([utterance])[0] for utterance in CORPUS] == at_once
    monkeypatch.setattr("sottovoce.deid.detect.crf.tagger._MOST_LETTERS", 100)
    assert tagger.find(CORPUS) == at_once


def test_texts_without_words_stand_between_others(tagger: Tagger) -> None:
    texts = ["", "call anna lee", " ", "", "to Anna: Lee!", "", "anna", "\n"]
    found = tagger.find([utterance_of(text) for text in texts])
    alone = [tagger.find([utterance_of(text)])[0] for text in texts]
    assert found == alone
    values = [
        [text[start:end] for start, end, _ in spans]
        for text, spans in zip(texts, found, strict=True)
    ]
    assert values == [[], ["anna lee"], [], [], ["Anna: Lee"], [], ["anna"], []]


def test_runs_end_where_sentences_do() -> None:
    kinds, inside = np.array([0, 0, 0, 1, 1]), np.zeros(5, dtype=bool)
    firsts, lasts = runs(kinds, inside, np.array([1]))
    assert list(zip(firsts.tolist(), lasts.tolist(), strict=True)) == [(0, 0), (1, 2), (3, 4)]


def test_what_is_no_model_is_refused(tagger: Tagger) -> None:
    model = tagger._model
    for bad in (b"", b"lCRF", model[:-1], b"x" + model[1:], model[:12] + b"\0" + model[13:]):
        with pytest.raises(InvalidInput, match="CRFsuite"):
            read_weights(bad)
