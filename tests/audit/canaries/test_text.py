from pathlib import Path

import numpy as np
import pytest

from sottovoce.audit.canaries import (
    TextCanaries,
    fair_coins,
    read_canaries,
    text_canaries,
    write_canaries,
)
from sottovoce.corpora import Utterance, write
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

WORDS = [f"word{i}" for i in range(50)]
INTENTS = ["call", "play", "stop"]


def made(count: int = 300, seed: int = 1, **other: object) -> TextCanaries:
    given = {"vocabulary": WORDS, "intents": INTENTS, "source": NoiseSource.seeded(seed)} | other
    return text_canaries(count, **given)  # type: ignore[arg-type]


def test_canaries_are_unique_and_new() -> None:
    first = made()
    texts = [canary.text for canary in first.utterances]
    assert len(set(texts)) == 300
    again = made(known=set(texts))
    assert not set(texts) & {canary.text for canary in again.utterances}


def test_every_canary_is_an_example_and_a_user_of_its_own() -> None:
    canaries = made(count=50).utterances
    assert len({canary.id for canary in canaries}) == 50
    assert len({canary.user for canary in canaries}) == 50
    assert all(set(canary.slots) == {"O"} and len(canary.tokens) == 8 for canary in canaries)


def test_words_intents_and_coins_are_uniform_and_independent() -> None:
    """Chi-square of 6 equal cells has 5 degrees of freedom: 20.5 is passed once in a thousand."""
    canaries = made(count=3000, length=4)
    table = np.zeros((2, 3))
    for canary, coin in zip(canaries.utterances, canaries.included.tolist(), strict=True):
        table[int(coin), INTENTS.index(canary.intent)] += 1
    assert ((table - 500) ** 2 / 500).sum() < 20.5
    used = [token for canary in canaries.utterances for token in canary.tokens]
    assert set(used) == set(WORDS)


def test_coins_are_fair_and_not_biased() -> None:
    """Of 100,000 coins 50,000 are heads, give or take 158; a coin of 0.52 is told apart."""
    heads = int(fair_coins(100_000, NoiseSource.seeded(2)).sum())
    assert abs(heads - 50_000) < 4 * 158
    biased = int((NoiseSource.seeded(2).uniform(100_000) < 0.52).sum())
    assert abs(biased - 50_000) > 4 * 158


def test_chosen_are_the_included_ones() -> None:
    canaries = made(count=20)
    assert canaries.chosen() == [
        canary for canary, coin in zip(canaries.utterances, canaries.included, strict=True) if coin
    ]


def test_files_both_ways(tmp_path: Path) -> None:
    canaries = made(count=30)
    write_canaries(tmp_path / "canaries.jsonl", canaries)
    again = read_canaries(tmp_path / "canaries.jsonl")
    assert (again.included == canaries.included).all()
    assert [c.text for c in again.utterances] == [c.text for c in canaries.utterances]
    assert [c.intent for c in again.utterances] == [c.intent for c in canaries.utterances]


def test_a_file_without_coins(tmp_path: Path) -> None:
    write(tmp_path / "calls.jsonl", [Utterance(tokens=("call",), slots=("O",))])
    with pytest.raises(InvalidInput, match=r'Expected every canary in .* with "included"'):
        read_canaries(tmp_path / "calls.jsonl")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 0}, "Expected count >= 1, got 0"),
        ({"length": 0}, "Expected length >= 1, got 0"),
        ({"intents": ["call", "call"]}, "Expected at least 2 intents for canaries, got 1"),
        ({"length": 2}, "enough words for 300 different canaries, got 50 words"),
        ({"vocabulary": []}, "enough words for 300 different canaries, got 0 words"),
    ],
)
def test_bad_input(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        made(**change)  # type: ignore[arg-type]


def test_coins_must_fit() -> None:
    with pytest.raises(InvalidInput, match="Expected included as booleans of shape"):
        TextCanaries(made(count=3).utterances, np.ones(2, dtype=np.bool_))
