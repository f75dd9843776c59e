"""The four scores together, and against the plain counts of each."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.corpora import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.nlu.metrics import (
    SemanticErrors,
    count,
    items_of,
    relative_change,
    score,
    semantic_errors,
    slot_spans,
)
from sottovoce.nlu.metrics.scores import DISPLAY_NAMES

labels = st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b"])
intents = st.sampled_from(["go", "stop"])
words = st.sampled_from(["x", "y"])


def utterance(tokens: tuple[str, ...], slots: tuple[str, ...], intent: str) -> Utterance:
    return Utterance(tokens=tokens, slots=slots, intent=intent)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Utterance, Utterance]:
    columns = draw(st.lists(st.tuples(words, labels, labels), min_size=1, max_size=6))
    tokens, right, guess = (tuple(column) for column in zip(*columns, strict=True))
    if draw(st.booleans()):
        guess = right
    return utterance(tokens, right, draw(intents)), utterance(tokens, guess, draw(intents))


@given(st.lists(pairs(), min_size=1, max_size=8))
def test_each_by_itself(found: list[tuple[Utterance, Utterance]]) -> None:
    scores = score([right for right, _ in found], [guess for _, guess in found])
    errors = SemanticErrors()
    intents = both = spans = exact = 0
    for right, guess in found:
        a, b = (items_of(u.intent, u.tokens, u.slots) for u in (right, guess))
        errors += semantic_errors(a, b)
        wanted, given_spans = slot_spans(right.slots), slot_spans(guess.slots)
        intents += right.intent == guess.intent
        both += len(set(wanted) & set(given_spans))
        spans += len(wanted) + len(given_spans)
        exact += right.intent == guess.intent and wanted == given_spans
    assert scores.ser == pytest.approx(errors.rate)
    assert scores.intent_accuracy == pytest.approx(intents / len(found))
    assert scores.slot_f1 == pytest.approx(2 * both / spans if spans else 0.0)
    assert scores.exact_match == pytest.approx(exact / len(found))


def test_the_sum_of_parts_is_the_whole() -> None:
    one = utterance(("a", "b"), ("B-x", "I-x"), "go")
    other = utterance(("a", "b"), ("B-x", "O"), "stop")
    counts = count([one, one, other], [one, other, one])
    assert len(counts) == 3
    assert counts.rows[:, 0].tolist() == [1, 1, 1]
    assert counts.scores().to_json() == {
        "ser": pytest.approx(4 / 6),
        "intent_accuracy": pytest.approx(1 / 3),
        "slot_f1": pytest.approx(1 / 3),
        "exact_match": pytest.approx(1 / 3),
    }
    assert counts.rows.dtype == np.int64


def test_what_does_not_belong_together() -> None:
    one, other = utterance(("a",), ("O",), ""), utterance(("b",), ("O",), "")
    with pytest.raises(InvalidInput, match=r"the 2 utterances of the reference, got 1\."):
        score([one, one], [one])
    with pytest.raises(InvalidInput, match="got different words in utterance 2"):
        score([one, one], [one, other])


def test_relative_change() -> None:
    assert relative_change(0.15, 0.1) == pytest.approx(0.5)
    assert relative_change(0.05, 0.1) == pytest.approx(-0.5)
    assert relative_change(0.0, 0.0) == 0.0
    assert relative_change(0.1, 0.0) == math.inf


def test_every_score_has_a_display_name() -> None:
    stop = Utterance(tokens=("stop",), slots=("O",), intent="stop")
    assert list(count([stop], [stop]).scores().to_json()) == list(DISPLAY_NAMES)
