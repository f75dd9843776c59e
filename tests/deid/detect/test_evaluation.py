import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.corpora import Utterance
from sottovoce.deid.detect import Evaluation, Gazetteer, Gold, evaluate
from sottovoce.deid.detect.evaluation import recall_lower_bound
from sottovoce.deid.detect.labels import LabelMap
from sottovoce.errors import InvalidInput

LABELS = LabelMap({"who": "PER", "where": "LOC"}, frozenset({"what"}))
CALLS = [
    Utterance(
        tokens=("call", "anna", "lee", "in", "rome"),
        slots=("O", "B-who", "I-who", "O", "B-where"),
    ),
    Utterance(tokens=("play", "rome"), slots=("O", "B-what")),
]


def test_counts() -> None:
    found = evaluate(Gazetteer({"PER": ["anna", "rome"]}), CALLS, LABELS, most_examples=5)
    assert found.types["PER"].missed_words == 1
    assert found.types["PER"].missed_values == 1
    assert found.types["LOC"].missed_words == 0
    assert found.types["LOC"].mistyped_words == 1
    assert found.recall == pytest.approx(2 / 3)
    assert found.needless_words == 1
    assert found.precision == pytest.approx(2 / 3)
    assert found.examples == (("PER", "call anna lee in rome"),)


def test_gold_misses_nothing() -> None:
    assert evaluate(Gold(LABELS), CALLS, LABELS).recall == 1


def test_the_vectors(shared_data: Path) -> None:
    vectors = json.loads((shared_data.parent / "vectors" / "deid.json").read_text())
    for case in vectors["recall_lower_bound_95"]:
        bound = recall_lower_bound(case["n"] - case["misses"], case["n"])
        assert bound == pytest.approx(case["lower"], abs=1e-6)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_bounds_are_below_the_share_and_monotone(counts: tuple[int, int]) -> None:
    found, total = counts
    bound = recall_lower_bound(found, total)
    assert 0 <= bound <= found / total
    if found < total:
        assert recall_lower_bound(found + 1, total) > bound
    assert recall_lower_bound(found, total, 0.99) <= bound


def test_the_bound_covers_as_often_as_it_says() -> None:
    """By brute force: the chance that a true recall of 0.9 lies below its bound is at most 5 %."""
    from scipy import stats

    chance = sum(
        float(stats.binom.pmf(k, 80, 0.9)) for k in range(81) if recall_lower_bound(k, 80) > 0.9
    )
    assert 0.01 < chance <= 0.05


def test_json_comes_back() -> None:
    found = evaluate(Gold(LABELS), CALLS, LABELS)
    assert Evaluation.from_json(json.loads(json.dumps(found.to_json()))) == found
    with pytest.raises(InvalidInput, match="evaluation in JSON"):
        Evaluation.from_json({"confidence": 0.95})


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="to look for"):
        evaluate(Gold(LABELS), CALLS[1:], LABELS)
    with pytest.raises(InvalidInput, match="found from 0"):
        recall_lower_bound(5, 4)
    with pytest.raises(InvalidInput, match="confidence"):
        recall_lower_bound(4, 5, 1.0)
