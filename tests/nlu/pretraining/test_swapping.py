"""Exchanged values: same slots, same sentence around them, valid BIO."""

import random

from hypothesis import given
from hypothesis import strategies as st

from sottovoce.corpora import Utterance, check_bio
from sottovoce.nlu.pretraining.labelled import Values

CORPUS = (
    Utterance(tokens=("play", "some", "jazz"), slots=("O", "O", "B-genre"), intent="play"),
    Utterance(
        tokens=("rock", "and", "roll", "by", "ann", "lee"),
        slots=("B-genre", "I-genre", "I-genre", "O", "B-artist", "B-artist"),
    ),
)


@given(st.integers(0, 10_000), st.sampled_from(CORPUS))
def test_only_values_change(seed: int, utterance: Utterance) -> None:
    swapped = Values(CORPUS).swap(utterance, random.Random(seed))
    check_bio(swapped.slots)
    assert swapped.intent == utterance.intent
    assert [s for s in swapped.slots if not s.startswith("I-")] == [
        s for s in utterance.slots if not s.startswith("I-")
    ]
    outside = [t for t, s in zip(utterance.tokens, utterance.slots, strict=True) if s == "O"]
    assert [t for t, s in zip(swapped.tokens, swapped.slots, strict=True) if s == "O"] == outside
    assert swapped.text == " ".join(swapped.tokens)


def test_values_do_change() -> None:
    values = Values(CORPUS)
    texts = {values.swap(CORPUS[0], random.Random(seed)).text for seed in range(20)}
    assert texts == {"play some jazz", "play some rock and roll"}
