"""Training, validation and test parts, 45:5:50 as in the paper, in one pass and no memory.

Each record goes where a keyed hash of its own id, user or words sends it. So the same salt gives
the same split on any machine, an added record never moves another, and what shares a user (or the
words) shares a part. Parts have their sizes in expectation: few users or many repeats show.
"""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from sottovoce import _validate
from sottovoce.corpora.objects import to_object
from sottovoce.corpora.records import Utterance
from sottovoce.errors import InvalidInput

PARTS = ("train", "valid", "test")
RATIOS = (45, 5, 50)
SALT = "sottovoce"

By = Literal["id", "user", "text"]
_RANGE = 1 << 64


@dataclass(frozen=True, kw_only=True)
class Split:
    """The rule that sends a record to its part.

    `by="id"` hashes the id, or the whole record if it has none; `by="user"` keeps a user in one
    part and refuses a record without one; `by="text"` keeps equal token sequences in one part.

    >>> calls = [Utterance(tokens=("call",), slots=("O",), id=str(i)) for i in range(1000)]
    >>> parts = [Split().part(call) for call in calls]
    >>> {part: parts.count(part) for part in PARTS}
    {'train': 446, 'valid': 54, 'test': 500}
    """

    ratios: tuple[float, float, float] = RATIOS
    by: By = "id"
    salt: str = SALT

    def __post_init__(self) -> None:
        _validate.one_of("by", self.by, ("id", "user", "text"))
        if len(self.ratios) != len(PARTS):
            raise InvalidInput(f"Expected three ratios, train:valid:test, got {self.ratios}.")
        for part, ratio in zip(PARTS, self.ratios, strict=True):
            _validate.positive(f"the ratio of {part}", ratio)

    def part(self, utterance: Utterance) -> str:
        """The part that this record belongs to, whatever else the corpus holds."""
        digest = hashlib.blake2b(self._identity(utterance), digest_size=8, key=self._key).digest()
        return PARTS[bisect_right(self._bounds, int.from_bytes(digest, "big"))]

    @cached_property
    def _bounds(self) -> tuple[int, ...]:
        """Where each part ends among the 64-bit numbers."""
        exact = [Fraction(ratio) for ratio in self.ratios]
        return tuple(int(_RANGE * sum(exact[:n]) / sum(exact)) for n in (1, 2, 3))

    @cached_property
    def _key(self) -> bytes:
        return hashlib.blake2b(self.salt.encode("utf-8", "surrogatepass")).digest()

    def _identity(self, utterance: Utterance) -> bytes:
        identity: object
        if self.by == "text":
            identity = list(utterance.tokens)
        elif self.by == "user":
            if not utterance.user:
                raise InvalidInput(
                    "Expected a user in every record to split by user, got none for "
                    f"{utterance.text[:40]!r}; add users, or split by id or text."
                )
            identity = utterance.user
        else:
            identity = utterance.id or to_object(utterance)
        return json.dumps(identity, sort_keys=True).encode()


def split(
    utterances: Iterable[Utterance],
    ratios: tuple[float, float, float] = RATIOS,
    by: By = "id",
    salt: str = SALT,
) -> Iterator[tuple[str, Utterance]]:
    """Pair every utterance with its part, one at a time.

    >>> calls = [Utterance(tokens=("call", who), slots=("O", "O"), user=who) for who in "abcab"]
    >>> [part for part, _ in split(calls, by="user")]
    ['train', 'train', 'test', 'train', 'train']
    """
    rule = Split(ratios=ratios, by=by, salt=salt)
    return ((rule.part(utterance), utterance) for utterance in utterances)


def parse_ratios(text: str) -> tuple[float, float, float]:
    """Read "train:valid:test".

    >>> parse_ratios("45:5:50")
    (45.0, 5.0, 50.0)
    >>> parse_ratios("80:20")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected ratios train:valid:test such as 45:5:50, got '80:20'.
    """
    try:
        train, valid, test = map(float, text.split(":"))
    except ValueError:
        raise InvalidInput(
            f"Expected ratios train:valid:test such as 45:5:50, got {text!r}."
        ) from None
    return train, valid, test
