"""Factors in time order, and the trust in single words."""

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import Vector, Vocabulary
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.rescoring.scores import Adaptation
from sottovoce.personalize.rescoring.stream import Personalisation, personal_factors

TEXT = ["call mum", "call dad", "hang up"]
MODEL = train_ngram(TEXT, Vocabulary.from_text(TEXT, size=20), 2)
HEARD = [NBest(f"u{i}", (Hypothesis("call dad"),), client="ann", order=i) for i in range(4)]
SHARED = np.roll(MODEL.vocabulary.unigram, 1)


def factors(trust: float | None, *, beta: float = 0.5) -> list[Vector]:
    settings = Personalisation(adaptation=Adaptation(alpha=0.3, beta=beta, power=2.0), trust=trust)
    return [found for _, found in personal_factors(HEARD, MODEL, settings, SHARED)]


def test_trust_moves_factors_from_shared_to_personal() -> None:
    index = MODEL.vocabulary.index
    dad, up = index["dad"], index["up"]
    plain, wary = factors(None), factors(2.0)
    # No counts at all, or none of this word: the shared factor.
    everybody = Adaptation(alpha=0.3, beta=0.0, power=2.0)
    unigram = MODEL.vocabulary.unigram
    alone = everybody.log_factors(unigram, SHARED, unigram)
    assert wary[0][dad] == pytest.approx(alone[dad])
    assert wary[3][up] == pytest.approx(alone[up])
    for heard in (1, 2, 3):
        share = heard / (heard + 2.0)
        expected = alone[dad] + share * (plain[heard][dad] - alone[dad])
        assert wary[heard][dad] == pytest.approx(expected)
    # With little trust needed, counted words are not shrunk.
    assert factors(1e-9)[3][dad] == pytest.approx(plain[3][dad])


def test_bad_input() -> None:
    for wrong in (0.0, -1.0):
        with pytest.raises(InvalidInput, match="trust > 0"):
            Personalisation(trust=wrong)
