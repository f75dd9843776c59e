"""Vocabularies of words and characters, and their privacy cost.

| source | privacy cost |
|---|---|
| a public list or public word vectors | none |
| hashing | none: there is no list, but some words share an id |
| noisy counts of private text (`private_words`) | epsilon and delta, recorded in the ledger |
| the private text itself | not covered by any guarantee, and listed as such |

Id 0 is padding. Characters of a public alphabet have their own ids; all others are hashed.
"""

import hashlib
import importlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from pathlib import Path
from string import printable
from typing import Any, Self

import numpy as np

from sottovoce import _validate
from sottovoce.corpora import Utterance
from sottovoce.corpora.wordvectors import WordVectors, read_word_vectors
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import BoundedRelease
from sottovoce.privacy.guarantee import Relation
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource, discrete_laplace

ALPHABET = "".join(c for c in printable if not c.isspace())
SPARE_CHARACTERS = 64
LONGEST_WORD = 64
"""Of a longer word, the first and the last LONGEST_WORD / 2 characters are used."""


class WordSource(StrEnum):
    """Where the list of words came from."""

    PUBLIC = "public"
    HASHED = "hashed"
    DP = "dp"
    PRIVATE = "private"


@dataclass(frozen=True, eq=False, kw_only=True)
class Words:
    """Ids of words: from 1 for listed words, then `spare` hash buckets for all others.

    >>> words = Words(listed=("call", "mum"), source=WordSource.PUBLIC, spare=4)
    >>> words.number("call"), words.number("Mum"), words.number("zebra") > 2, words.size
    (1, 2, True, 7)
    """

    listed: tuple[str, ...] = ()
    source: WordSource = WordSource.HASHED
    spare: int = 1
    _index: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _validate.parse_choices(self)
        _validate.at_least_one("spare", self.spare)
        index: dict[str, int] = {}
        for number, word in enumerate(self.listed, 1):
            index.setdefault(word, number)
        object.__setattr__(self, "_index", index)

    @classmethod
    def hashed(cls, buckets: int = 20_000) -> Self:
        """Hash buckets only, without a list."""
        return cls(spare=_validate.at_least_one("buckets", buckets))

    @classmethod
    def seen(cls, utterances: Iterable[Utterance], *, spare: int = 100) -> Self:
        """All words of private text, in alphabetical order. No guarantee covers this list."""
        found = {token.lower() for utterance in utterances for token in utterance.tokens}
        return cls(listed=tuple(sorted(found)), source=WordSource.PRIVATE, spare=spare)

    @property
    def size(self) -> int:
        """Number of embedding rows, including padding."""
        return 1 + len(self.listed) + self.spare

    @property
    def uncovered(self) -> tuple[str, ...]:
        if self.source is WordSource.PRIVATE:
            return ("the vocabulary, read off the private text and stored with the model",)
        return ()

    def number(self, word: str) -> int:
        """The id of a word; the lower-case form is tried if the word itself is not listed."""
        found = self._index.get(word) or self._index.get(word.lower())
        if found is not None:
            return found
        return 1 + len(self.listed) + bucket(word.lower(), self.spare)

    def to_json(self) -> dict[str, Any]:
        return {"source": str(self.source), "spare": self.spare}

    def file(self) -> bytes:
        """The listed words, as stored with a model."""
        return json.dumps(self.listed, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, data: Mapping[str, Any], file: bytes) -> Self:
        return cls(
            listed=tuple(json.loads(file)),
            source=WordSource(data["source"]),
            spare=int(data["spare"]),
        )


class Characters:
    """Ids of characters: a public alphabet first, then hash buckets for all others.

    >>> characters = Characters()
    >>> len(characters.numbers("naïve")), min(characters.numbers("naïve")) > 0
    (5, True)
    """

    def __init__(self, alphabet: str = ALPHABET, spare: int = SPARE_CHARACTERS) -> None:
        _validate.at_least_one("spare", spare)
        self.alphabet, self.spare = alphabet, spare
        self.size = 1 + len(alphabet) + spare
        self._index = {character: number for number, character in enumerate(alphabet, 1)}

    def numbers(self, word: str) -> list[int]:
        if len(word) > LONGEST_WORD:
            word = word[: LONGEST_WORD // 2] + word[-LONGEST_WORD // 2 :]
        first_spare = 1 + len(self.alphabet)
        return [
            self._index.get(c) or first_spare + bucket(c, self.spare) for c in word
        ]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {"alphabet": self.alphabet, "spare": self.spare}


def words_of_vectors(path: str | Path, *, spare: int = 100) -> tuple[Words, WordVectors]:
    """A public vocabulary with its vectors: `.npz`, `.vec`, `.txt`, or a fastText `.bin`."""
    vectors = _fasttext(path) if Path(path).suffix == ".bin" else read_word_vectors(path)
    return Words(listed=vectors.words, source=WordSource.PUBLIC, spare=spare), vectors


def private_words(
    utterances: Sequence[Utterance],
    ledger: Ledger,
    *,
    epsilon: float,
    delta: float,
    owners: Sequence[str] | None = None,
    words_each: int = 16,
    spare: int = 100,
    source: NoiseSource | None = None,
) -> Words:
    """The words used by many owners, selected by noisy counts above a threshold.

    Every owner (an utterance, unless `owners` names one for each) contributes its first
    `words_each` distinct words, once each. Counts get discrete Laplace noise of scale
    b = k / epsilon, where k is the largest number of counts in which neighbours differ. A word is
    kept if its noisy count exceeds 1 + b ln(k / delta), so a word of a single owner is kept with
    probability at most delta / k. The cost is recorded in the ledger before the release.
    """
    _validate.positive("epsilon", epsilon)
    _validate.at_least_one("words_each", words_each)
    if not 0 < delta < 1:
        raise InvalidInput(f"Expected delta in (0, 1) for a private vocabulary, got {delta:g}.")
    if owners is not None and len(owners) != len(utterances):
        raise InvalidInput(
            f"Expected an owner for each of {len(utterances)} utterances, got {len(owners)}."
        )
    source = source or NoiseSource()
    changed = words_each * (2 if ledger.relation is Relation.REPLACE_ONE else 1)
    scale = changed / epsilon
    threshold = 1 + scale * math.log(changed / delta)
    ledger.spend(
        BoundedRelease(
            unit=ledger.unit,
            mechanism=f"thresholded discrete Laplace counts of words, {words_each} of each owner",
            epsilon=epsilon,
            delta=delta,
            seeded=source.is_seeded,
        )
    )
    counts = _owners_of_words(utterances, owners, words_each)
    names = sorted(counts)
    noisy = np.array([counts[name] for name in names], dtype=np.int64)
    noisy += discrete_laplace(len(names), scale, source)
    kept = tuple(name for name, count in zip(names, noisy, strict=True) if count > threshold)
    return Words(listed=kept, source=WordSource.DP, spare=spare)


@lru_cache(maxsize=1 << 16)
def bucket(text: str, buckets: int) -> int:
    """A hash that is the same on every machine, unlike Python's `hash`."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % buckets


def _owners_of_words(
    utterances: Sequence[Utterance], owners: Sequence[str] | None, words_each: int
) -> Counter[str]:
    given: dict[str, dict[str, None]] = {}
    for place, utterance in enumerate(utterances):
        own = given.setdefault(str(place) if owners is None else owners[place], {})
        own.update(dict.fromkeys(token.lower() for token in utterance.tokens))
    return Counter(word for own in given.values() for word in islice(own, words_each))


def _fasttext(path: str | Path) -> WordVectors:
    if not Path(path).is_file():
        raise InvalidInput(f"Expected a file at {path}, found none there.")
    try:
        fasttext = importlib.import_module("fasttext")  # untyped, and rarely installed
    except ModuleNotFoundError:
        raise InvalidInput(
            f"Expected the package fasttext to read {path}, which is not installed: "
            "pip install fasttext, or convert the vectors to .vec."
        ) from None
    try:
        model = fasttext.load_model(str(path))
    except ValueError as problem:
        raise InvalidInput(f"Expected a fastText model at {path}, but {problem}.") from problem
    words = tuple(model.get_words())
    return WordVectors(words, np.stack([model.get_word_vector(word) for word in words]))
