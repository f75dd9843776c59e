"""Text canaries: utterances of random words with a random intent, included by a fair coin.

A model can only label such an utterance correctly by memorising it or by chance: its words carry no
information about its intent.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from sottovoce import _validate
from sottovoce.audit import _checks
from sottovoce.audit._checks import Flags, Scores
from sottovoce.audit.scoring import ScoringFunction, log_probabilities
from sottovoce.corpora import Utterance, read, write
from sottovoce.corpora.records import OUTSIDE
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Relation
from sottovoce.privacy.noise import NoiseSource


def fair_coins(count: int, source: NoiseSource) -> Flags:
    """One independent fair coin per canary; an audit relies on no other randomness.

    >>> coins = fair_coins(1000, NoiseSource.seeded(1))
    >>> coins.dtype.name, bool(400 < coins.sum() < 600)
    ('bool', True)
    """
    coins: Flags = (source.words(count) & np.uint64(1)).astype(np.bool_)
    return coins


# Minimum number of possible utterances per canary, so that no two are nearly the same.
ROOM = 1000


@dataclass(frozen=True, eq=False)
class TextCanaries:
    """Canary utterances, and which of them go into the training data.

    `included` is the secret of the audit: the attack must not see it before guessing.
    """

    utterances: tuple[Utterance, ...]
    included: Flags

    relation: ClassVar[Relation] = Relation.ADD_OR_REMOVE

    def __post_init__(self) -> None:
        _checks.flags("included", self.included, (len(self.utterances),))

    def chosen(self) -> list[Utterance]:
        """The canaries to train on."""
        return [self.utterances[i] for i in np.flatnonzero(self.included).tolist()]

    def scores(self, score: ScoringFunction[Utterance]) -> Scores:
        """The score of each canary, included or not."""
        return log_probabilities(score(self.utterances), len(self.utterances))


def text_canaries(
    count: int,
    *,
    vocabulary: Sequence[str],
    intents: Sequence[str],
    source: NoiseSource,
    length: int = 8,
    known: Collection[str] = (),
) -> TextCanaries:
    """Draw `count` canaries that differ from each other and from the `known` texts.

    Each has a unique id and user, so that it is both one example and one user.

    >>> canaries = text_canaries(3, vocabulary=["call", "stop", "mum", "jazz"], length=6,
    ...                          intents=["call", "play"], source=NoiseSource.seeded(3))
    >>> canaries.utterances[0].text, canaries.utterances[0].intent
    ('stop jazz stop stop stop mum', 'call')
    >>> len(canaries.chosen()) == int(canaries.included.sum())
    True
    """
    _validate.at_least_one("count", count)
    _validate.at_least_one("length", length)
    words, labels = list(dict.fromkeys(vocabulary)), list(dict.fromkeys(intents))
    if len(labels) < 2:
        raise InvalidInput(f"Expected at least 2 intents for canaries, got {len(labels)}.")
    if len(words) ** length < ROOM * count:
        raise InvalidInput(
            f"Expected enough words for {count} different canaries, got {len(words)} words in "
            f"utterances of length {length}: use a larger vocabulary or length."
        )
    texts = _distinct_texts(count, words, length, source, set(known))
    places = source.integers(len(labels), count).tolist()
    utterances = tuple(
        Utterance(
            tokens=tuple(text.split(" ")),
            slots=(OUTSIDE,) * length,
            intent=labels[place],
            user=f"canary-{i:06d}",
            id=f"canary-{i:06d}",
        )
        for i, (text, place) in enumerate(zip(texts, places, strict=True))
    )
    return TextCanaries(utterances, fair_coins(count, source))


def write_canaries(path: Path | str, canaries: TextCanaries) -> None:
    """Write canaries and coins; keep the file secret, since it reveals the coins to attackers."""
    write(path, _marked(canaries))


def read_canaries(path: Path | str) -> TextCanaries:
    """Read canaries with their coins."""
    utterances = tuple(read(path))
    coins = [utterance.extra.get("included") for utterance in utterances]
    if not all(isinstance(coin, bool) for coin in coins):
        raise InvalidInput(f'Expected every canary in {path} with "included": true or false.')
    return TextCanaries(utterances, np.array(coins, dtype=np.bool_))


def _marked(canaries: TextCanaries) -> Iterable[Utterance]:
    for utterance, coin in zip(canaries.utterances, canaries.included.tolist(), strict=True):
        yield Utterance(
            tokens=utterance.tokens,
            slots=utterance.slots,
            intent=utterance.intent,
            user=utterance.user,
            id=utterance.id,
            text=utterance.text,
            extra={"included": coin},
        )


def _distinct_texts(
    count: int, words: Sequence[str], length: int, source: NoiseSource, taken: set[str]
) -> list[str]:
    texts: list[str] = []
    while len(texts) < count:
        text = " ".join(words[i] for i in source.integers(len(words), length).tolist())
        if text not in taken:
            taken.add(text)
            texts.append(text)
    return texts


@dataclass(frozen=True, eq=False)
class CanaryPairs:
    """Two canaries per coin: heads includes the first, tails the second.

    A guarantee under replace-one (shuffled or fixed batches) does not cover adding a record, so
    canaries that are in or out cannot refute it. In a pair, one canary replaces the other, the size
    of the training data is the same either way, and the bound holds under replace-one.

    >>> from sottovoce.audit.canaries import text_canaries
    >>> from sottovoce.privacy.noise import NoiseSource
    >>> pairs = CanaryPairs.of(text_canaries(100, vocabulary=["a", "b", "c", "d"], length=10,
    ...                                      intents=["x", "y"], source=NoiseSource()))
    >>> len(pairs.chosen()), pairs.included.shape, str(pairs.relation)
    (50, (50,), 'replace-one')
    """

    first: tuple[Utterance, ...]
    second: tuple[Utterance, ...]
    included: Flags

    relation: ClassVar[Relation] = Relation.REPLACE_ONE

    @classmethod
    def of(cls, canaries: TextCanaries) -> "CanaryPairs":
        """Pair the canaries; the coin of the first of each pair decides for both."""
        if len(canaries.utterances) % 2:
            raise InvalidInput(
                f"Expected an even number of canaries to pair up, got {len(canaries.utterances)}."
            )
        return cls(
            canaries.utterances[::2], canaries.utterances[1::2], canaries.included[::2].copy()
        )

    def chosen(self) -> list[Utterance]:
        """The canaries to train on, one of each pair."""
        return [
            heads if coin else tails
            for heads, tails, coin in zip(
                self.first, self.second, self.included.tolist(), strict=True
            )
        ]

    def scores(self, score: ScoringFunction[Utterance]) -> Scores:
        """Log-probability of the first canary of each pair minus that of the second."""
        heads = log_probabilities(score(self.first), len(self.first))
        tails = log_probabilities(score(self.second), len(self.second))
        return heads - tails
