"""Personal phrases: distributions, no effect without them, and recurring habits."""

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.lm.ngram.model import END, START
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.phrases import PhraseCache
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.lists import Hypothesis, NBest

TEXT = ["call mum", "call dad", "hang up", "mum called", "dad hang up"]
MODEL = train_ngram(TEXT, Vocabulary.from_text(TEXT, size=20), 2)
SENTENCES = [["call", "mum"], ["call", "dad"], ["hang"], []]


def habits(
    times: int, *, text: str = "call dad", order: int = 2, strength: float = 0.5, trust: float = 3.0
) -> PhraseCache:
    cache = PhraseCache(Counting(), order=order, strength=strength, trust=trust)
    for _ in range(times):
        cache.add(NBest("u", (Hypothesis(text),)))
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
    # Both begin with "call", so only the second word distinguishes them.
    assert often[1] - often[0] > plain[1] - plain[0]


@pytest.mark.parametrize("order", [2, 3, 4])
def test_every_history_keeps_a_distribution(order: int) -> None:
    cache = habits(4, text="dad hang up call dad", order=order)
    words = [word for word in MODEL.words if word != START]
    index = np.array([MODEL.index[word] for word in words])
    for said in (["call"], ["hang"], ["dad", "hang"], ["dad", "hang", "up"], []):
        before = MODEL.index[said[-1] if said else START]
        model = np.exp(MODEL.log_probabilities(np.full((len(words), 1), before), index))
        known = model.copy()
        for place, word in enumerate(words):
            # The end is not a word, so it is queried after the history itself.
            sentence = said if word == END else [*said, word]
            probabilities = np.zeros(len(sentence) + 1)
            probabilities[len(said)] = model[place]
            known[place] = cache.mixed([sentence], probabilities)[len(said)]
        assert known.sum() == pytest.approx(1)


def test_longer_phrases_tell_apart_what_pairs_cannot() -> None:
    pairs, triples = (habits(9, text="hang up mum", order=order) for order in (2, 3))
    for cache in (pairs, triples):
        cache.add(NBest("v", (Hypothesis("call up dad"),)))
    sentences = [["hang", "up", "mum"], ["call", "up", "mum"]]
    gain = [a - b for a, b in (c.score(sentences, MODEL) for c in (pairs, triples))]
    assert gain[1] > gain[0]
    # After an unseen longer history the shorter one decides.
    never = [["dad", "up"]]
    assert np.allclose(pairs.score(never, MODEL), triples.score(never, MODEL))


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="strength"):
        habits(0, strength=1.0)
    with pytest.raises(InvalidInput, match="trust > 0"):
        habits(0, trust=0.0)
    with pytest.raises(InvalidInput, match="order"):
        habits(0, order=0)
