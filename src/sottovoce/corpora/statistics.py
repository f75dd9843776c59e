"""Summary statistics of a corpus, in one pass.

Memory grows with the number of distinct words, users, intents, slot types and token sequences (16
bytes of hash each, to count duplicates), not with the size of the corpus.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sottovoce.corpora.records import Utterance
from sottovoce.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusStatistics:
    """The counts of one corpus or one part of it.

    `intents` and `slots` count utterances and annotated spans by name, most frequent first;
    `lengths` counts utterances by their number of tokens; `growth` is the type-token curve, as
    pairs of tokens and distinct words; `repeated` counts the utterances whose token sequence
    occurred before.
    """

    utterances: int
    tokens: int
    words: int
    users: int
    without_user: int
    intents: Mapping[str, int]
    slots: Mapping[str, int]
    lengths: Mapping[int, int]
    growth: tuple[tuple[int, int], ...]
    repeated: int

    def to_json(self) -> dict[str, Any]:
        """The statistics as a JSON object; the keys of `lengths` become strings."""
        return asdict(self) | {
            "lengths": {str(length): count for length, count in self.lengths.items()},
            "growth": [list(point) for point in self.growth],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "CorpusStatistics":
        """The inverse of `to_json`.

        >>> counted = describe([Utterance(tokens=("call", "mum"), slots=("O", "B-who"))])
        >>> CorpusStatistics.from_json(counted.to_json()) == counted
        True
        """
        if {*found} != {*cls.__slots__}:
            raise InvalidInput(
                f"Expected the keys {', '.join(cls.__slots__)}, got {', '.join(found) or 'none'}."
            )
        lengths = {int(length): count for length, count in found["lengths"].items()}
        growth = tuple((tokens, words) for tokens, words in found["growth"])
        return cls(**{**found, "lengths": lengths, "growth": growth})


class Tally:
    """Running counts; `statistics()` can be called at any time."""

    def __init__(self) -> None:
        self.sequences: Counter[bytes] = Counter()
        self._tokens = 0
        self._without_user = 0
        self._words: set[str] = set()
        self._users: set[str] = set()
        self._intents: Counter[str] = Counter()
        self._slots: Counter[str] = Counter()
        self._lengths: Counter[int] = Counter()
        self._growth: list[tuple[int, int]] = []
        self._next_point = 1

    def add(self, utterance: Utterance) -> None:
        """Count one utterance."""
        tokens = utterance.tokens
        self.sequences[_fingerprint(tokens)] += 1
        self._lengths[len(tokens)] += 1
        if utterance.user:
            self._users.add(utterance.user)
        else:
            self._without_user += 1
        if utterance.intent:
            self._intents[utterance.intent] += 1
        self._slots.update(label[2:] for label in utterance.slots if label.startswith("B-"))
        if self._tokens + len(tokens) < self._next_point:
            self._words.update(tokens)
            self._tokens += len(tokens)
            return
        for token in tokens:
            self._words.add(token)
            self._tokens += 1
            if self._tokens == self._next_point:
                self._growth.append((self._tokens, len(self._words)))
                self._next_point = _following_point(self._tokens)

    def statistics(self) -> CorpusStatistics:
        """The statistics so far."""
        growth = list(self._growth)
        if self._tokens and growth[-1][0] != self._tokens:
            growth.append((self._tokens, len(self._words)))
        utterances = self.sequences.total()
        return CorpusStatistics(
            utterances=utterances,
            tokens=self._tokens,
            words=len(self._words),
            users=len(self._users),
            without_user=self._without_user,
            intents=_by_count(self._intents),
            slots=_by_count(self._slots),
            lengths=dict(sorted(self._lengths.items())),
            growth=tuple(growth),
            repeated=utterances - len(self.sequences),
        )


def count(utterances: Iterable[Utterance]) -> Tally:
    """Count a whole corpus."""
    tally = Tally()
    for utterance in utterances:
        tally.add(utterance)
    return tally


def describe(utterances: Iterable[Utterance]) -> CorpusStatistics:
    """The statistics of a whole corpus.

    >>> call = Utterance(tokens=("call", "mum"), slots=("O", "B-who"), intent="call")
    >>> counted = describe([call, call])
    >>> counted.utterances, counted.words, counted.repeated, counted.slots
    (2, 2, 1, {'who': 2})
    """
    return count(utterances).statistics()


def shared(part: Tally, other: Tally) -> int:
    """Number of utterances of `part` whose token sequence occurs in `other`.

    >>> call = Utterance(tokens=("call", "mum"), slots=("O", "B-who"))
    >>> stop = Utterance(tokens=("stop",), slots=("O",))
    >>> shared(count([call, call, stop]), count([call]))
    2
    """
    return sum(n for sequence, n in part.sequences.items() if sequence in other.sequences)


def _fingerprint(tokens: tuple[str, ...]) -> bytes:
    # The lengths make the encoding of sequences unique.
    joined = "".join(tokens)
    shape = ",".join(str(len(token)) for token in tokens)
    encoded = f"{shape}:{joined}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).digest()


def _following_point(tokens: int) -> int:
    """1, 2, 5, 10, 20, 50, ..."""
    return tokens * 5 // 2 if str(tokens)[0] == "2" else tokens * 2


def _by_count(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))
