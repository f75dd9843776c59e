import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sottovoce.corpora import Utterance
from sottovoce.errors import BudgetExceeded, InvalidInput
from sottovoce.nlu.encoders.words import (
    ALPHABET,
    LONGEST_WORD,
    Characters,
    Words,
    WordSource,
    bucket,
    private_words,
    words_of_vectors,
)
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.ledger import Budget, Ledger
from sottovoce.privacy.noise import NoiseSource


def spoken(*texts: str) -> list[Utterance]:
    return [Utterance(tokens=tuple(t.split()), slots=("O",) * len(t.split())) for t in texts]


def ledger(relation: Relation = Relation.ADD_OR_REMOVE, epsilon: float | None = None) -> Ledger:
    budget = None if epsilon is None else Budget(epsilon=epsilon, delta=1e-6)
    return Ledger(unit=Unit.EXAMPLE, relation=relation, budget=budget)


def test_numbers_fit_the_table_and_none_is_padding() -> None:
    words = Words(listed=("call", "mum"), source=WordSource.PUBLIC, spare=3)
    numbers = [words.number(w) for w in ("call", "CALL", "mum", "x", "y", "z", "żółw", "")]
    assert numbers[:3] == [1, 1, 2]
    assert all(3 <= number < words.size for number in numbers[3:])


def test_hashing_is_the_same_everywhere_and_spreads() -> None:
    # `printf call | b2sum -l 64`, as a number, modulo 1000.
    assert bucket("call", 1000) == 919
    counts = Counter(Words.hashed(64).number(f"w{i}") for i in range(6400))
    assert set(counts) == set(range(1, 65))
    assert max(counts.values()) < 200


def test_only_words_of_private_text_are_uncovered() -> None:
    seen = Words.seen(spoken("call Mum", "call me"))
    assert seen.listed == ("call", "me", "mum")
    assert seen.uncovered
    assert not Words.hashed().uncovered
    assert not Words(listed=("a",), source=WordSource.PUBLIC).uncovered


def test_words_both_ways() -> None:
    words = Words(listed=("żółw", "mum"), source=WordSource.DP, spare=5)
    again = Words.from_json(words.to_json(), words.file())
    assert (again.listed, again.source, again.spare) == (words.listed, words.source, words.spare)


def test_no_character_is_lost() -> None:
    characters = Characters()
    word = "".join(chr(c) for c in range(0x20, 0x17F)) + "日本\U0001f600\ud800"
    for part in (word[i : i + LONGEST_WORD] for i in range(0, len(word), LONGEST_WORD)):
        numbers = characters.numbers(part)
        assert len(numbers) == len(part)
        assert all(0 < number < characters.size for number in numbers)
    assert len(set(characters.numbers(ALPHABET[:60]))) == 60


def test_a_very_long_word_keeps_its_ends() -> None:
    characters = Characters()
    numbers = characters.numbers("a" * 5000 + "z")
    assert len(numbers) == LONGEST_WORD
    assert numbers[0] == characters.numbers("a")[0]
    assert numbers[-1] == characters.numbers("z")[0]


def test_vectors_from_files(tmp_path: Path) -> None:
    (tmp_path / "a.vec").write_text("2 3\ncall 1 0 0\nmum 0 1 0\n")
    np.savez(tmp_path / "a.npz", words=np.array(["x"]), vectors=np.ones((1, 2), np.float32))
    words, vectors = words_of_vectors(tmp_path / "a.vec")
    assert words.listed == ("call", "mum")
    assert vectors.vectors.shape == (2, 3)
    assert words_of_vectors(tmp_path / "a.npz")[0].source is WordSource.PUBLIC


def test_fasttext_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fasttext", None)
    (tmp_path / "cc.bin").write_bytes(b"x")
    with pytest.raises(InvalidInput, match="install fasttext"):
        words_of_vectors(tmp_path / "cc.bin")
    with pytest.raises(InvalidInput, match="found none"):
        words_of_vectors(tmp_path / "none.bin")


def test_private_words_are_paid_for_first() -> None:
    account = ledger()
    words = private_words(
        spoken(*["play jazz"] * 400, "secret word"), account, epsilon=2.0, delta=1e-6,
        words_each=2, source=NoiseSource.seeded(1),
    )  # fmt: skip
    assert words.listed == ("jazz", "play")
    assert words.source is WordSource.DP
    assert not words.uncovered
    guarantee = account.guarantee(1e-6)
    assert guarantee.epsilon == pytest.approx(2.0)
    with pytest.raises(BudgetExceeded):
        private_words(spoken("a"), ledger(epsilon=1.0), epsilon=2.0, delta=1e-6)


def test_an_owner_gives_each_word_once_and_no_more_than_its_share() -> None:
    """One person repeats a rare word 10,000 times: it must stay one person's."""
    texts = spoken(*["rare word again"] * 10_000)
    found = private_words(
        texts, ledger(), epsilon=1.0, delta=1e-9, owners=["ann"] * len(texts), words_each=2,
        source=NoiseSource.seeded(3),
    )  # fmt: skip
    assert found.listed == ()
    crowd = private_words(
        texts, ledger(), epsilon=1.0, delta=1e-9, words_each=2, source=NoiseSource.seeded(3)
    )
    assert crowd.listed == ("rare", "word")


@pytest.mark.parametrize("relation", list(Relation))
def test_a_word_of_one_owner_hardly_ever_shows(relation: Relation) -> None:
    """With delta = 0.2 and k words of one owner, some of them shows with probability <= 0.2.

    Over 4000 trials the share is above 0.25 with probability below 1e-13 (Hoeffding).
    """
    shown = sum(
        bool(
            private_words(
                spoken("a b c d"), ledger(relation), epsilon=1.0, delta=0.2, words_each=4,
                source=NoiseSource.seeded(seed),
            ).listed
        )
        for seed in range(4000)
    )  # fmt: skip
    assert shown / 4000 < 0.25
    assert shown > 0


def test_the_noise_has_the_scale_that_was_paid() -> None:
    """A word one scale b below the threshold passes with probability P(X > b) = e^-1 / 2, roughly.

    With 0.7 or 1.3 times the noise it would be 0.12 or 0.23 instead of 0.18. Seeds are fixed, so
    the outcome is too; fresh ones would miss by 0.04 in 3000 trials once in 7000 times (Hoeffding).
    """
    k, epsilon, delta = 4, 0.5, 1e-3
    scale = k / epsilon
    threshold = 1 + scale * math.log(k / delta)
    owners = round(threshold - scale)
    texts = spoken(*["word"] * owners)
    share = np.mean(
        [
            bool(
                private_words(
                    texts, ledger(), epsilon=epsilon, delta=delta, words_each=k,
                    source=NoiseSource.seeded(seed),
                ).listed
            )
            for seed in range(3000)
        ]
    )  # fmt: skip
    gap = threshold - owners
    right = math.exp(-gap / scale) / 2
    assert abs(share - right) < 0.04
    for factor in (0.7, 1.3):
        assert abs(share - math.exp(-gap / (factor * scale)) / 2) > 0.03


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"epsilon": 0.0, "delta": 1e-6}, "epsilon"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta"),
        ({"epsilon": 1.0, "delta": 1e-6, "words_each": 0}, "words_each"),
        ({"epsilon": 1.0, "delta": 1e-6, "owners": ["a", "b"]}, "owner"),
    ],
)
def test_private_words_refuse(options: dict[str, float], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        private_words(spoken("a"), ledger(), **options)  # type: ignore[arg-type]
