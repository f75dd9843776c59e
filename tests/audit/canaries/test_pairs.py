import numpy as np
import pytest

from sottovoce.audit.canaries import CanaryPairs, TextCanaries, one_run_audit, text_canaries
from sottovoce.corpora import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Relation
from sottovoce.privacy.noise import NoiseSource


def canaries(count: int = 200) -> TextCanaries:
    return text_canaries(
        count,
        vocabulary=[f"word{i}" for i in range(50)],
        intents=["call", "play"],
        source=NoiseSource.seeded(1),
    )


def test_exactly_one_of_each_pair_goes_in() -> None:
    pairs = CanaryPairs.of(canaries())
    chosen = {utterance.id for utterance in pairs.chosen()}
    assert len(chosen) == 100
    for first, second, coin in zip(pairs.first, pairs.second, pairs.included, strict=True):
        assert (first.id in chosen, second.id in chosen) == (coin, not coin)


def test_a_model_that_knows_them_by_heart_gives_the_coins_away() -> None:
    pairs = CanaryPairs.of(canaries())
    known = {utterance.id for utterance in pairs.chosen()}

    def score(asked: object) -> list[float]:
        assert isinstance(asked, tuple)
        return [-0.1 if canary.id in known else -2.0 for canary in asked]

    scores = pairs.scores(score)
    assert ((scores > 0) == pairs.included).all()
    bound = one_run_audit(scores, pairs.included, delta=0.0, guesses=100, relation=pairs.relation)
    assert bound.relation is Relation.REPLACE_ONE
    assert bound.epsilon > 3


def test_an_odd_one_out() -> None:
    with pytest.raises(InvalidInput, match="Expected an even number of canaries to pair up, got 3"):
        CanaryPairs.of(canaries(3))


def test_scores_of_single_canaries() -> None:
    alone = canaries(4)
    asked: list[Utterance] = []

    def score(records: object) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        assert isinstance(records, tuple)
        asked.extend(records)
        return np.full(4, -1.0)

    assert alone.scores(score).tolist() == [-1.0] * 4
    assert asked == list(alone.utterances)
    assert alone.relation is Relation.ADD_OR_REMOVE
