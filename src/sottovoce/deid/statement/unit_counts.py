"""Counts of replaced values by type, utterance, user and release.

An utterance is identified by its id; releasing it again costs again, in the same call or a later
one. Texts without an id are identified by their words: within one call equal texts are different
utterances, and a later call that releases them again adds up. A statement needs only the
undominated counts. Memory use is that of the users plus twenty bytes per utterance with private
values.
"""

import base64
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import InvalidInput

Counts = tuple[int, ...]
Matrix = NDArray[np.int64]

_MAX_KEPT = 64
_ROW = np.dtype([("key", "<u8"), ("release", "<u8"), ("pattern", "<u4")])


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A batch of released utterances: the types of their values, their users and keys.

    Equal `keys` mean the same utterance. Rows with equal keys add up, unless they also have equal
    `releases`: then they are different utterances of one release.
    """

    types: Sequence[tuple[str, ...]]
    users: Sequence[str]
    keys: Sequence[int]
    releases: Sequence[int]

    def to_json(self) -> dict[str, Any]:
        return {
            "types": list(map(list, self.types)),
            "users": list(self.users),
            "keys": list(self.keys),
            "releases": list(self.releases),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Rows":
        return cls(
            types=[tuple(types) for types in data["types"]],
            users=data["users"],
            keys=data["keys"],
            releases=data["releases"],
        )


def key_of(*parts: str) -> int:
    """A 64-bit hash that is equal for equal parts in every process."""
    message = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(message, digest_size=8).digest(), "little")


def normalized_user(user: str) -> str:
    """The user name, stripped and in Unicode normal form; blank means no user.

    >>> normalized_user(" ann ") == normalized_user("ann"), normalized_user("  ")
    (True, '')
    """
    user = user.strip()
    return user if user.isascii() else unicodedata.normalize("NFKC", user)


def random_numbers(count: int) -> list[int]:
    """Numbers unique to each release."""
    found: list[int] = np.frombuffer(os.urandom(8 * count), dtype="<u8").tolist()
    return found


class UnitCounts:
    """Counts per privacy unit of a release.

    >>> counts = UnitCounts()
    >>> for user, types in [("a", ["PER", "PER"]), ("b", ["LOC"]), ("a", ["PER"])]:
    ...     counts.add(types, user)
    >>> counts.types, sorted(counts.worst_utterances()), sorted(counts.worst_users())
    (['PER', 'LOC'], [(0, 1), (2, 0)], [(0, 1), (3, 0)])
    >>> counts.add(["PER"], "a", id="1"); counts.add(["PER"], "a", id="1")
    >>> sorted(counts.worst_tokens()), counts.max_releases
    ([(0, 1), (2, 0)], 2)
    """

    def __init__(self) -> None:
        self.utterances = 0
        self.without_user = 0
        self._patterns: dict[tuple[str, ...], int] = {}
        self._often: Counter[int] = Counter()
        self._users: dict[str, Counter[str]] = {}
        self._rows: list[NDArray[np.void]] = []
        self._originals: dict[str, str] = {}

    @property
    def tokens(self) -> Counter[str]:
        """The number of replaced values of each type."""
        found: Counter[str] = Counter()
        for pattern, number in self._patterns.items():
            for kind in pattern:
                found[kind] += self._often[number]
        return found

    @property
    def types(self) -> list[str]:
        """The types, in the order they were first counted."""
        return list(dict.fromkeys(kind for pattern in self._patterns for kind in pattern))

    @property
    def users(self) -> int:
        return len(self._users)

    @property
    def max_releases(self) -> int:
        """The largest number of releases of any utterance."""
        rows, starts = self._grouped()
        return int(np.diff(starts, append=len(rows)).max(initial=0))

    def original(self, kind: str) -> str:
        """The name of a type in its original release (see `merge`)."""
        return self._originals.get(kind, kind)

    def add(self, types: Sequence[str], user: str, id: str = "") -> None:
        """Count one utterance, given the type of each replaced value."""
        keys = [key_of("id", id)] if id else random_numbers(1)
        self.add_all(
            Rows(types=[tuple(types)], users=[user], keys=keys, releases=random_numbers(1))
        )

    def add_all(self, rows: Rows) -> None:
        """Count a batch of utterances."""
        self.utterances += len(rows.types)
        self.without_user += rows.users.count("")
        kept = []
        for types, user, key, release in zip(
            rows.types, rows.users, rows.keys, rows.releases, strict=True
        ):
            if user:
                own = self._users.get(user)
                if own is None:
                    own = self._users[user] = Counter()
                own.update(types)
            if types:
                kept.append((key, release, self._number(tuple(sorted(types)))))
        if kept:
            self._often.update(number for _, _, number in kept)
            self._rows.append(np.array(kept, dtype=_ROW))

    def _number(self, pattern: tuple[str, ...]) -> int:
        return self._patterns.setdefault(pattern, len(self._patterns))

    def worst_utterances(self, types: Sequence[str] | None = None) -> set[Counts]:
        """Counts of the given types (default all) that dominate those of every utterance."""
        counts, _ = self._sums(self._matrix(self.types if types is None else types))
        return _worst(map(tuple, counts.tolist()))

    def worst_tokens(self, types: Sequence[str] | None = None) -> set[Counts]:
        """Counts that dominate those of every token: its releases as a value of each type.

        A token has one type. Only where the releases of an utterance disagree on the types of its
        values may a token have had any of them.
        """
        chosen = self.types if types is None else types
        there, agree = self._sums(np.minimum(self._matrix(chosen), 1))
        originals = [self.original(kind) for kind in chosen]
        masks = [[original == kind for kind in originals] for original in dict.fromkeys(originals)]
        found = [tuple(row) for row in there[~agree].tolist()]
        for mask in masks:
            found += [
                tuple(row) for row in (there[agree] * np.array(mask, dtype=np.int64)).tolist()
            ]
        return _worst(counts for counts in found if any(counts))

    def worst_users(self, types: Sequence[str] | None = None) -> set[Counts]:
        """Counts that dominate those of every user."""
        chosen = self.types if types is None else types
        return _worst(
            tuple(total[kind] for kind in chosen) for total in self._users.values() if total
        )

    def merge(self, other: "UnitCounts", names: Mapping[str, str]) -> None:
        """Add the counts of another object; `names` maps its types to names here."""
        self.utterances += other.utterances
        self.without_user += other.without_user
        for user, total in other._users.items():
            own = self._users.setdefault(user, Counter())
            for kind, count in total.items():
                own[names[kind]] += count
        for kind, name in names.items():
            if name != kind:
                self._originals[name] = other.original(kind)
        numbers = np.zeros(len(other._patterns), dtype=np.uint32)
        for pattern, number in other._patterns.items():
            mine = self._number(tuple(sorted(names[kind] for kind in pattern)))
            numbers[number] = mine
            self._often[mine] += other._often[number]
        for rows in other._rows:
            renamed = rows.copy()
            renamed["pattern"] = numbers[rows["pattern"]]
            self._rows.append(renamed)

    def to_json(self) -> dict[str, Any]:
        """The complete counts; as private as the text."""
        return {
            "utterances": self.utterances,
            "without_user": self.without_user,
            "patterns": [list(pattern) for pattern in self._patterns],
            "often": [self._often[number] for number in range(len(self._patterns))],
            "users": {user: dict(total) for user, total in self._users.items()},
            "originals": self._originals,
            "rows": base64.b64encode(self._all_rows().tobytes()).decode(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "UnitCounts":
        counts = cls()
        try:
            counts.utterances, counts.without_user = data["utterances"], data["without_user"]
            for pattern, often in zip(data["patterns"], data["often"], strict=True):
                counts._often[counts._number(tuple(pattern))] = often
            counts._users = {user: Counter(total) for user, total in data["users"].items()}
            counts._originals = dict(data["originals"])
            rows = np.frombuffer(base64.b64decode(data["rows"], validate=True), dtype=_ROW)
            if len(rows) != sum(data["often"]) or rows["pattern"].max(initial=0) >= max(
                1, len(counts._patterns)
            ):
                raise ValueError("rows do not match counts")
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise InvalidInput(f"Expected the counts of a release, but {problem!r}.") from problem
        counts._rows = [rows]
        return counts

    def _all_rows(self) -> NDArray[np.void]:
        if len(self._rows) != 1:
            self._rows = [np.concatenate([np.empty(0, _ROW), *self._rows])]
        return self._rows[0]

    def _grouped(self) -> tuple[NDArray[np.void], NDArray[np.intp]]:
        """The rows sorted by utterance, deduplicated within a release, and each utterance's start.

        Equal texts without an id may occur several times in one release: the worst of them occurs
        once in every release.
        """
        rows = np.unique(self._all_rows())
        starts = np.flatnonzero(np.diff(rows["key"], prepend=0) != 0)
        if len(rows) and (not len(starts) or starts[0] != 0):
            starts = np.concatenate([[0], starts])  # 0 is a valid key
        return rows, starts.astype(np.intp)

    def _sums(self, counts: Matrix) -> tuple[Matrix, NDArray[np.bool_]]:
        """Pattern `counts` summed by utterance, and whether its releases agree on the types."""
        rows, starts = self._grouped()
        if not len(rows):
            return counts[:0], np.ones(0, dtype=np.bool_)
        patterns = rows["pattern"].astype(np.intp)
        bases = self._base_patterns()[patterns]
        sizes = np.diff(starts, append=len(rows))
        alone = np.unique(patterns[starts[sizes == 1]])
        repeated = np.repeat(sizes > 1, sizes)
        if not repeated.any():
            return counts[alone], np.ones(len(alone), dtype=np.bool_)
        firsts = np.concatenate([[0], np.cumsum(sizes[sizes > 1])[:-1]]).astype(np.intp)
        summed = np.add.reduceat(counts[patterns[repeated]], firsts, axis=0)
        own = bases[repeated]
        agree = np.minimum.reduceat(own, firsts) == np.maximum.reduceat(own, firsts)
        both = np.unique(np.column_stack([summed, agree]), axis=0)
        return (
            np.concatenate([counts[alone], both[:, :-1]]),
            np.concatenate([np.ones(len(alone), dtype=np.bool_), both[:, -1] == 1]),
        )

    def _matrix(self, types: Sequence[str]) -> Matrix:
        """The number of values of each type in each pattern."""
        return np.array(
            [[pattern.count(kind) for kind in types] for pattern in self._patterns], dtype=np.int64
        ).reshape(len(self._patterns), len(types))

    def _base_patterns(self) -> NDArray[np.int64]:
        """Equal numbers for patterns of the same types, across releases."""
        known: dict[frozenset[str], int] = {}
        return np.array(
            [
                known.setdefault(frozenset(self.original(kind) for kind in pattern), len(known))
                for pattern in self._patterns
            ],
            dtype=np.int64,
        )


def _worst(counts: Iterable[Counts]) -> set[Counts]:
    """The undominated counts; if there are too many, a single one that dominates them all."""
    every = set(counts)
    kept: list[Counts] = []
    for each in sorted(every, key=lambda counts: (-sum(counts), counts)):
        if not any(_dominates(other, each) for other in kept):
            kept.append(each)
    if len(kept) > _MAX_KEPT:
        return {tuple(map(max, zip_longest(*kept, fillvalue=0)))}
    return set(kept)


def _dominates(counts: Counts, other: Counts) -> bool:
    return all(mine >= its for mine, its in zip_longest(counts, other, fillvalue=0))
