"""How many values of each type were replaced, in which utterance, of which user, how many times.

An utterance is what has one id; releasing it again costs again, in the same call or in a later one.
Texts without an id are told apart by their words: within one call equal texts are utterances of
their own, and a later call that releases them again adds up. Of the counts a statement needs the
undominated ones alone. The memory is that of the users and twenty bytes an utterance with private
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

_MOST_KEPT = 64
_ROW = np.dtype([("key", "<u8"), ("release", "<u8"), ("pattern", "<u4")])


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Some released utterances: the types of their values, their users, which utterances they are.

    `keys` are equal for the same utterance. Rows of one key add up, unless `releases` says that
    they stand side by side in one release.
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
    """64 bits that are equal for equal parts, in every process."""
    message = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(message, digest_size=8).digest(), "little")


def one_name(user: str) -> str:
    """The name of a user without blanks around it, in one spelling; a blank one is none.

    >>> one_name(" ann ") == one_name("ann"), one_name("  ")
    (True, '')
    """
    user = user.strip()
    return user if user.isascii() else unicodedata.normalize("NFKC", user)


def random_numbers(count: int) -> list[int]:
    """Numbers that no two releases share."""
    found: list[int] = np.frombuffer(os.urandom(8 * count), dtype="<u8").tolist()
    return found


class UnitCounts:
    """Counts for the privacy units of a release.

    >>> tally = UnitCounts()
    >>> for user, types in [("a", ["PER", "PER"]), ("b", ["LOC"]), ("a", ["PER"])]:
    ...     tally.add(types, user)
    >>> tally.types, sorted(tally.worst_utterances()), sorted(tally.worst_users())
    (['PER', 'LOC'], [(0, 1), (2, 0)], [(0, 1), (3, 0)])
    >>> tally.add(["PER"], "a", id="1"); tally.add(["PER"], "a", id="1")
    >>> sorted(tally.worst_tokens()), tally.most_releases
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
        """How many values of each type were replaced."""
        found: Counter[str] = Counter()
        for pattern, number in self._patterns.items():
            for kind in pattern:
                found[kind] += self._often[number]
        return found

    @property
    def types(self) -> list[str]:
        """The types in the order of their counts."""
        return list(dict.fromkeys(kind for pattern in self._patterns for kind in pattern))

    @property
    def users(self) -> int:
        return len(self._users)

    @property
    def most_releases(self) -> int:
        """How often the utterance was released that was released most often."""
        rows, starts = self._grouped()
        return int(np.diff(starts, append=len(rows)).max(initial=0))

    def original(self, kind: str) -> str:
        """What a type is called in the release that it came from (see `merge`)."""
        return self._originals.get(kind, kind)

    def add(self, types: Sequence[str], user: str, id: str = "") -> None:
        """One utterance: the type of each of its replaced values."""
        keys = [key_of("id", id)] if id else random_numbers(1)
        self.add_all(
            Rows(types=[tuple(types)], users=[user], keys=keys, releases=random_numbers(1))
        )

    def add_all(self, rows: Rows) -> None:
        """Some utterances at once."""
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
        """Counts of these types (of all) such that every utterance is dominated by one of them."""
        counts, _ = self._sums(self._matrix(self.types if types is None else types))
        return _worst(map(tuple, counts.tolist()))

    def worst_tokens(self, types: Sequence[str] | None = None) -> set[Counts]:
        """The same for one token: how often it was released as a value of each type.

        It has one type. Only where the releases of an utterance do not agree on the types of its
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
        """The same for users."""
        chosen = self.types if types is None else types
        return _worst(
            tuple(total[kind] for kind in chosen) for total in self._users.values() if total
        )

    def merge(self, other: "UnitCounts", names: Mapping[str, str]) -> None:
        """Add what another tally counted; `names` are what its types are called here."""
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
        """All of it, to be kept as private as the text."""
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
        tally = cls()
        try:
            tally.utterances, tally.without_user = data["utterances"], data["without_user"]
            for pattern, often in zip(data["patterns"], data["often"], strict=True):
                tally._often[tally._number(tuple(pattern))] = often
            tally._users = {user: Counter(total) for user, total in data["users"].items()}
            tally._originals = dict(data["originals"])
            rows = np.frombuffer(base64.b64decode(data["rows"], validate=True), dtype=_ROW)
            if len(rows) != sum(data["often"]) or rows["pattern"].max(initial=0) >= max(
                1, len(tally._patterns)
            ):
                raise ValueError("its rows do not fit its counts")
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise InvalidInput(f"Expected the counts of a release, but {problem!r}.") from problem
        tally._rows = [rows]
        return tally

    def _all_rows(self) -> NDArray[np.void]:
        if len(self._rows) != 1:
            self._rows = [np.concatenate([np.empty(0, _ROW), *self._rows])]
        return self._rows[0]

    def _grouped(self) -> tuple[NDArray[np.void], NDArray[np.intp]]:
        """The rows by utterance, equal ones of one release once, and where each utterance begins.

        Equal texts without an id may stand side by side in one release: the worst of them was in
        every release once.
        """
        rows = np.unique(self._all_rows())
        starts = np.flatnonzero(np.diff(rows["key"], prepend=0) != 0)
        if len(rows) and (not len(starts) or starts[0] != 0):
            starts = np.concatenate([[0], starts])  # a key of 0 is a key
        return rows, starts.astype(np.intp)

    def _sums(self, counts: Matrix) -> tuple[Matrix, NDArray[np.bool_]]:
        """`counts` of patterns, summed by utterance, and whether its releases agree on types."""
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
        """How many values of each of the types each pattern has."""
        return np.array(
            [[pattern.count(kind) for kind in types] for pattern in self._patterns], dtype=np.int64
        ).reshape(len(self._patterns), len(types))

    def _base_patterns(self) -> NDArray[np.int64]:
        """Equal numbers for patterns of the same types, whatever release they are from."""
        known: dict[frozenset[str], int] = {}
        return np.array(
            [
                known.setdefault(frozenset(self.original(kind) for kind in pattern), len(known))
                for pattern in self._patterns
            ],
            dtype=np.int64,
        )


def _worst(counts: Iterable[Counts]) -> set[Counts]:
    """The undominated counts; if they are many, the one that dominates them all."""
    every = set(counts)
    kept: list[Counts] = []
    for each in sorted(every, key=lambda counts: (-sum(counts), counts)):
        if not any(_dominates(other, each) for other in kept):
            kept.append(each)
    if len(kept) > _MOST_KEPT:
        return {tuple(map(max, zip_longest(*kept, fillvalue=0)))}
    return set(kept)


def _dominates(counts: Counts, other: Counts) -> bool:
    return all(mine >= its for mine, its in zip_longest(counts, other, fillvalue=0))
