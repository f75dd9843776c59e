"""Mixtures of models: shares, words that one of them lacks, exact normalisation."""

import math

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.mixture import MixedLM, mixed
from sottovoce.personalize.lm.ngram.model import NGramModel
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary

HOME = ["call mum", "call dad", "mum called", "call mum now"]
WORK = ["call the office", "the office called", "call mum at the office"]
WIDE = Vocabulary.from_text(HOME + WORK, size=30)
NARROW = Vocabulary.from_text(HOME, size=4)
FIRST = train_ngram(HOME + WORK, WIDE, 3)
OTHER = train_ngram(HOME, NARROW, 2)
SENTENCES = [["call", "mum"], ["the", "office"], ["zebra", "called"], []]


def factors(seed: int = 0) -> Vector:
    return np.random.default_rng(seed).normal(size=len(WIDE))


def next_words(model: MixedLM, said: list[str], log_factors: Vector | None = None) -> Vector:
    """p of every word of the vocabulary, and of the end, after a history."""
    sentences = [*([*said, word] for word in WIDE.words), said]
    values, owners = model.score_words(sentences, log_factors)
    return np.array([math.exp(values[owners == i][len(said)]) for i in range(len(sentences))])


@pytest.mark.parametrize("said", [[], ["call"], ["the", "office"], ["zebra"]])
def test_it_is_a_distribution(said: list[str]) -> None:
    both = MixedLM([FIRST, OTHER], [0.3, 0.7])
    assert next_words(both, said).sum() == pytest.approx(1)
    assert next_words(both, said, factors()).sum() == pytest.approx(1)


def test_the_narrow_model_alone_would_not_tell_unknown_words_apart() -> None:
    the, office = (MixedLM([FIRST, OTHER], [0, 1]).score([[word]])[0] for word in ("the", "now"))
    assert OTHER.score([["the"]]) == OTHER.score([["now"]])
    assert the != office


def test_one_share_is_that_model() -> None:
    for log_factors in (None, factors()):
        for normalise in (True, False):
            alone = FIRST.score(SENTENCES, log_factors, normalise=normalise)
            for models, shares in (([FIRST], None), ([FIRST, OTHER], [1.0, 0.0])):
                found = MixedLM(models, shares).score(SENTENCES, log_factors, normalise=normalise)
                assert np.allclose(found, alone)


def test_between_its_models_word_by_word() -> None:
    models: list[NGramModel] = [train_ngram(text, WIDE, 2) for text in (HOME, WORK)]
    between = np.exp(MixedLM(models).score_words(SENTENCES)[0])
    parts = [np.exp(model.score_words(SENTENCES)[0]) for model in models]
    assert np.allclose(between, np.mean(parts, axis=0))


def test_shares_are_fitted_to_text() -> None:
    models = [train_ngram(text, WIDE, 2) for text in (HOME, WORK)]
    home, work = MixedLM(models).fitted(HOME), MixedLM(models).fitted(WORK)
    assert home.shares[0] > 0.9
    assert work.shares[1] > 0.9
    both = HOME + WORK
    best = MixedLM(models).fitted(both)

    def likely(model: MixedLM) -> float:
        return sum(model.score([line.split() for line in both]))

    assert likely(best) >= max(likely(MixedLM(models, [s, 1 - s])) for s in (0.1, 0.5, 0.9))


def test_one_model_or_several() -> None:
    assert mixed([FIRST]) is FIRST
    both = mixed([FIRST, OTHER])
    assert np.allclose(both.score(SENTENCES), MixedLM([FIRST, OTHER]).score(SENTENCES))

    class Opaque:
        """A model that scores whole sentences only."""

        vocabulary = WIDE

        def score(self, sentences: object, *_: object, **__: object) -> list[float]:
            return []

    with pytest.raises(InvalidInput, match="to mix, got others"):
        mixed([FIRST, Opaque()])


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="models to mix"):
        MixedLM([])
    with pytest.raises(InvalidInput, match="sum to 1"):
        MixedLM([FIRST, OTHER], [0.5, 0.6])
    with pytest.raises(InvalidInput, match="log factors"):
        MixedLM([FIRST, OTHER]).score([["call"]], np.zeros(2))
    with pytest.raises(InvalidInput, match="fit the shares"):
        MixedLM([FIRST, OTHER]).fitted([])
    assert UNKNOWN in MixedLM([OTHER, FIRST]).vocabulary.index
