from pathlib import Path

import pytest

from sottovoce.audit.duplicates import LeftOut, candidates, words
from sottovoce.corpora import Utterance, read
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource


def said(text: str) -> Utterance:
    tokens = tuple(text.split())
    return Utterance(tokens=tokens, slots=("O",) * len(tokens))


def test_duplicates_are_left_out_and_counted() -> None:
    training = [said(text) for text in ("call mum", "Call mum", "call dad", "stop")]
    test = [said(text) for text in ("call mum", "CALL DAD", "play jazz", "play jazz", "hello")]
    tried = candidates(training, test, sentence=words, source=NoiseSource())
    assert tried.left_out == LeftOut(in_training=2, repeated_members=1, repeated_non_members=1)
    assert len(tried.members) == len(tried.non_members) == 2
    assert [u.text for u in tried.non_members] == ["play jazz", "hello"]
    assert {u.text for u in tried.members} <= {"call mum", "call dad", "stop"}


def test_as_many_as_asked_for_drawn_at_random() -> None:
    numbers, others = range(1000), range(1000, 2000)
    first, again, different = (
        candidates(numbers, others, sentence=str, source=NoiseSource.seeded(seed), most=100)
        for seed in (1, 1, 2)
    )
    assert len(first.members) == len(first.non_members) == 100
    assert first == again
    assert first.members != different.members
    # A uniform hundred of a thousand has the mean 499.5, give or take 27.
    assert abs(sum(first.members) / 100 - 499.5) < 110


def test_nobody_left_to_try() -> None:
    with pytest.raises(InvalidInput, match="got 1 distinct training records and 0 test records"):
        candidates(["a", "a"], ["a"], sentence=str, source=NoiseSource())
    with pytest.raises(InvalidInput, match="Expected most >= 1, got 0"):
        candidates(["a"], ["b"], sentence=str, source=NoiseSource(), most=0)


def test_real_corpora_repeat_themselves(shared_data: Path) -> None:
    """Of the 8,621 test sentences of English TOD, 2,811 are in its training data."""
    folder = shared_data / "nlu" / "en-tod"
    train, test = (list(read(folder / f"{part}.jsonl.gz")) for part in ("train", "test"))
    tried = candidates(train, test, sentence=words, source=NoiseSource.seeded(1))
    assert tried.left_out.in_training == 2811
    assert tried.left_out.repeated_members == 7534
