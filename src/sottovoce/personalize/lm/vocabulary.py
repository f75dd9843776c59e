"""The public vocabulary, its background distribution u(w), and the smoothing of counts with it.

Vocabulary and background come from public text. A vocabulary taken from private utterances would
itself be a release: a rare name in it reveals that someone used it.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output

UNKNOWN = "<unk>"

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words with their background probability; all other words count as `<unk>`.

    >>> words = Vocabulary.from_text(["call mum", "call dad", "call"], size=3)
    >>> words.words, words.unigram.round(2).tolist()
    (('call', 'dad', '<unk>'), [0.5, 0.25, 0.25])
    >>> words.encode(["call", "xylophone"]).tolist()
    [0, 2]
    """

    words: tuple[str, ...]
    unigram: Vector
    index: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        index = {word: place for place, word in enumerate(self.words)}
        if len(index) != len(self.words):
            raise InvalidInput("Expected every word of the vocabulary once, got some twice.")
        if UNKNOWN not in index:
            raise InvalidInput(f"Expected {UNKNOWN} in the vocabulary, not found.")
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "unigram", distribution(self.unigram, len(self.words)))
        if self.unigram.min() <= 0:
            raise InvalidInput(
                "Expected a background probability above 0 for every word, got 0: the adaptation "
                "factor divides by it."
            )

    @classmethod
    def from_text(cls, lines: Iterable[str], size: int, listed: Iterable[str] = ()) -> Self:
        """The most frequent words of public text; u adds one to every count.

        `listed` are further words from a public list (towns, a dictionary) that may not occur in
        the text; they are added on top of `size`.
        """
        if size < 2:
            raise InvalidInput(f"Expected a size >= 2, {UNKNOWN} and one word, got {size}.")
        counts = Counter(word for line in lines for word in line.split())
        counts.pop(UNKNOWN, None)
        if not counts:
            raise InvalidInput("Expected public text with words, got none.")
        # Ties are broken alphabetically, so that the order of lines does not matter.
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        kept = dict(ranked[: size - 1])
        kept |= {
            word: counts.get(word, 0) for word in listed if word not in kept and word != UNKNOWN
        }
        mass = np.array([*kept.values(), counts.total() - sum(kept.values())], np.float64)
        mass += 1
        return cls((*kept, UNKNOWN), mass / mass.sum())

    @cached_property
    def digest(self) -> str:
        """A short hash of the words and their order."""
        return hashlib.sha256(json.dumps(self.words).encode()).hexdigest()[:16]

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: Sequence[str]) -> NDArray[np.int64]:
        unknown = self.index[UNKNOWN]
        return np.array([self.index.get(word, unknown) for word in words], dtype=np.int64)

    def save(self, path: Path | str) -> None:
        with text_output(path) as stream:
            json.dump({"words": self.words, "unigram": self.unigram.tolist()}, stream)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        try:
            data = json.loads(Path(path).read_bytes())
            return cls(tuple(map(str, data["words"])), data["unigram"])
        except (KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as problem:
            raise InvalidInput(f"Expected a vocabulary in {path}, but {problem!r}.") from problem


def distribution(values: ArrayLike, size: int) -> Vector:
    """Validate values as a distribution over `size` words.

    >>> distribution([0.5, 0.6], 2)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected probabilities that sum to 1, got 1.1.
    """
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (_validate.at_least_one("size", size),):
        raise InvalidInput(f"Expected {size} probabilities, got the shape {vector.shape}.")
    if not (np.isfinite(vector).all() and (vector >= 0).all()):
        raise InvalidInput("Expected probabilities >= 0, got negative or non-finite ones.")
    if abs(vector.sum() - 1) > 1e-6:
        raise InvalidInput(f"Expected probabilities that sum to 1, got {vector.sum():g}.")
    return vector


class Smoothing(Protocol):
    """Turns counts n and the background u into a distribution q.

    It is non-decreasing in every count and preserves the total mass, so it does not change how much
    one utterance can move c q (see the privacy notes on smoothing).
    """

    def __call__(self, counts: Vector, background: Vector) -> Vector: ...


@dataclass(frozen=True)
class Dirichlet:
    """q = (n + mu u) / (c + mu): the background counts as `mass` words.

    >>> import numpy as np
    >>> Dirichlet(1.0)(np.array([2.0, 1.0]), np.array([0.5, 0.5])).tolist()
    [0.625, 0.375]
    """

    mass: float = 1.0

    def __post_init__(self) -> None:
        _validate.positive("mass", self.mass)

    def __call__(self, counts: Vector, background: Vector) -> Vector:
        smoothed: Vector = (counts + self.mass * background) / (counts.sum() + self.mass)
        return smoothed
