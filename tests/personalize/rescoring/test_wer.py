"""Word errors agree with jiwer, and intervals cover what they should."""

from pathlib import Path

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.formats import read_nbest
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.rescoring.wer import (
    WordErrors,
    change_interval,
    oracle,
    pooled,
    rate_interval,
    reference_of,
    split_errors,
    word_errors,
)

SENTENCE = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=8).map(" ".join)


@given(st.lists(st.tuples(SENTENCE.filter(bool), SENTENCE), min_size=1, max_size=5))
def test_pooled_rate_equals_jiwer(pairs: list[tuple[str, str]]) -> None:
    ours = pooled(pairs)
    theirs = jiwer.process_words([ref for ref, _ in pairs], [hyp for _, hyp in pairs])
    assert ours.rate == pytest.approx(theirs.wer)
    assert ours.count == theirs.substitutions + theirs.deletions + theirs.insertions


@given(SENTENCE, SENTENCE)
def test_split_errors_add_up(reference: str, hypothesis: str) -> None:
    chosen, rest = split_errors(reference, hypothesis, lambda word: word in "ab")
    assert (chosen + rest).count == word_errors(reference, hypothesis).count
    assert (chosen + rest).words == len(reference.split())


def test_rates_without_words() -> None:
    assert WordErrors().rate == 0
    assert WordErrors(insertions=1).rate == float("inf")
    assert oracle(NBest("u", (), reference="hi there")) == WordErrors(deletions=2, words=2)


def test_interval_widens_with_the_spread_of_clients() -> None:
    even = [WordErrors(2, words=20)] * 50
    uneven = [WordErrors(0, words=20), WordErrors(4, words=20)] * 25
    low, high = rate_interval(uneven)
    assert low < 0.1 < high
    assert rate_interval(even) == (0.1, 0.1)
    assert rate_interval(uneven) == rate_interval(uneven)
    wide, narrow = rate_interval(uneven, confidence=0.99), rate_interval(uneven, confidence=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="same clients"):
        change_interval([WordErrors()], [])
    with pytest.raises(InvalidInput, match="at least one client"):
        rate_interval([])
    with pytest.raises(InvalidInput, match="confidence in"):
        rate_interval([WordErrors(words=1)], confidence=1.0)
    with pytest.raises(InvalidInput, match="a reference"):
        reference_of(NBest("u", (Hypothesis("hi"),)))


def test_rates_of_the_shared_lists(shared_data: Path) -> None:
    lists = list(read_nbest(shared_data / "nbest/hyporadise/atis.test.jsonl"))
    first = pooled((reference_of(each), each.best.text) for each in lists)
    best = sum((oracle(each) for each in lists), WordErrors())
    assert round(100 * first.rate, 1) == 8.4
    assert round(100 * best.rate, 1) == 5.3
