"""What a device remembers: utterances without their scores, and marginals received from servers."""

import base64
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.lm.vocabulary import Vector, distribution
from sottovoce.personalize.nbest.lists import Hypothesis, NBest


@dataclass(frozen=True)
class StoredUtterance:
    """A stored utterance: texts by first-pass rank, without scores."""

    id: str
    texts: tuple[str, ...]
    correction: str | None = None

    def first_pass(self) -> NBest:
        return NBest(self.id, tuple(map(Hypothesis, self.texts)))

    def personal(self, nbest: int) -> NBest:
        """The personal list: a correction counts as if every hypothesis were the correction."""
        if self.correction is None:
            return self.first_pass()
        return NBest(self.id, (Hypothesis(self.correction),) * nbest)


@dataclass
class ReceivedMarginals:
    """Marginals received from servers: words over the device's vocabulary, and pairs."""

    words: Vector | None = None
    pairs: Marginals | None = None

    def to_json(self) -> dict[str, Any]:
        pairs = self.pairs
        packed = None
        if pairs is not None:
            packed = [list(pairs.words), _packed(pairs.q_bar), pairs.mass]
        return {"words": None if self.words is None else _packed(self.words), "pairs": packed}

    @classmethod
    def from_json(cls, data: dict[str, Any], size: int) -> Self:
        words = None if data["words"] is None else distribution(_unpacked(data["words"]), size)
        pairs = None
        if data["pairs"] is not None:
            names, q_bar, mass = data["pairs"]
            pairs = Marginals(tuple(names), _unpacked(q_bar), mass=mass)
        return cls(words, pairs)


@dataclass(frozen=True)
class LastAnswer:
    """The last contribution, to be repeated if the same round is asked for again.

    An answer may get lost, or the server may be killed before it publishes. The same bytes tell
    nobody anything new.
    """

    round: str
    message: bytes

    def to_json(self) -> list[str]:
        return [self.round, base64.b64encode(self.message).decode("ascii")]

    @classmethod
    def from_json(cls, data: list[str] | None) -> "LastAnswer | None":
        return None if data is None else cls(data[0], base64.b64decode(data[1]))


def _packed(values: Vector) -> str:
    return base64.b64encode(values.astype("<f8").tobytes()).decode("ascii")


def _unpacked(text: str) -> Vector:
    return np.frombuffer(base64.b64decode(text), "<f8").astype(np.float64)
