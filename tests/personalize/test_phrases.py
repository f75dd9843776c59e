"""Personal word pairs: a distribution, the plain model without them, and habits that return."""

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.counting import Counting
from sottovoce.personalize.nbest import Hypothesis, NBest
from sottovoce.personalize.ngram.model import START
from sottovoce.personalize.ngram.training import train_ngram
from sottovoce.personalize.phrases import PhraseCache
from sottovoce.personalize.vocabulary import Vocabulary

TEXT = ["call mum", "call dad", "hang up", "mum called", "dad hang up"]
MODEL = train_ngram(TEXT, Vocabulary.from_text(TEXT, size=20), 2)
SENTENCES = [["call", "mum"], ["call", "dad"], ["hang"], []]


def habits(times: int, **options: float) -> PhraseCache:
    cache = PhraseCache(Counting(), **options)
    for _ in range(times):
        cache.add(NBest("u", (Hypothesis("call dad"),)))
    return cache


def test_an_empty_cache_changes_nothing() -> None:
    assert np.allclose(habits(0).score(SENTENCES, MODEL), MODEL.score(SENTENCES))
    factors = np.random.default_rng(0).normal(size=len(MODEL.vocabulary))
    adapted = habits(3, strength=0.0).score(SENTENCES, MODEL, factors)
    assert np.allclose(adapted, MODEL.score(SENTENCES, factors))


def test_habits_return_and_grow() -> None:
    plain = MODEL.score(SENTENCES)
    once, often = habits(1).score(SENTENCES, MODEL), habits(9).score(SENTENCES, MODEL)
    assert plain[1] < once[1] < often[1]
    # Both begin with "call", so only the second word tells them apart.
    assert often[1] - often[0] > plain[1] - plain[0]


def test_every_history_keeps_a_distribution() -> None:
    cache = habits(4)
    words = [word for word in MODEL.words if word != START]
    index = np.array([MODEL.index[word] for word in words])
    for before in ("call", "hang", START):
        history = np.full((len(words), 1), MODEL.index[before])
        model = np.exp(MODEL.log_probabilities(history, index))
        weight = cache.weight(before)
        mixed = [
            (1 - weight) * p + weight * cache.probability(before, word)
            for word, p in zip(words, model.tolist(), strict=True)
        ]
        assert sum(mixed) == pytest.approx(1)


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="strength"):
        habits(0, strength=1.0)
    with pytest.raises(InvalidInput, match="trust > 0"):
        habits(0, trust=0.0)
