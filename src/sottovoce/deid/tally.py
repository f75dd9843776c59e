"""How many values of each type were replaced, in which utterance, of which user.

The guarantee of an utterance depends on the worst utterance alone, so of all the counts only the
undominated ones are kept: those that no other utterance exceeds in every type. The memory is that
of the users, not that of the text.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest

Counts = tuple[int, ...]

_MOST_KEPT = 64
_MOST_SEEN = 4096


class Tally:
    """Counts for the privacy units of a release.

    >>> tally = Tally()
    >>> for user, types in [("a", ["PER", "PER"]), ("b", ["LOC"]), ("a", ["PER"])]:
    ...     tally.add(types, user)
    >>> tally.types, sorted(tally.worst_utterances()), sorted(tally.worst_users())
    (['PER', 'LOC'], [(0, 1), (2, 0)], [(0, 1), (3, 0)])
    """

    def __init__(self) -> None:
        self.utterances = 0
        self.without_user = 0
        self._seen: Counter[tuple[str, ...]] = Counter()
        self._tokens: Counter[str] = Counter()
        self._places: dict[str, int] = {}
        self._utterances: set[Counts] = set()
        self._users: dict[str, Counter[str]] = {}

    @property
    def tokens(self) -> Counter[str]:
        """How many values of each type were replaced."""
        self._digest()
        return self._tokens

    @property
    def types(self) -> list[str]:
        """The types in the order of their counts."""
        self._digest()
        return list(self._places)

    @property
    def users(self) -> int:
        return len(self._users)

    def add(self, types: Sequence[str], user: str) -> None:
        """One utterance: the type of each of its replaced values."""
        self.add_all([tuple(types)], [user])

    def add_all(self, types: Sequence[tuple[str, ...]], users: Sequence[str]) -> None:
        """Some utterances at once."""
        self.utterances += len(types)
        without = users.count("")
        self.without_user += without
        self._seen.update(filter(None, types))
        if without < len(users):
            for kinds, user in zip(types, users, strict=True):
                if user and kinds:
                    self._users.setdefault(user, Counter()).update(kinds)
        if len(self._seen) > _MOST_SEEN:
            self._digest()

    def _digest(self) -> None:
        """Turn what was seen into counts. Most utterances look like others, so this is rare."""
        for types, often in self._seen.items():
            counts = [0] * len(self._places)
            for kind in types:
                place = self._places.setdefault(kind, len(self._places))
                counts += [0] * (place + 1 - len(counts))
                counts[place] += 1
                self._tokens[kind] += often
            self._utterances.add(tuple(counts))
        self._seen.clear()
        if len(self._utterances) > 2 * _MOST_KEPT:
            self._utterances = _worst(self._utterances)

    def worst_utterances(self, types: Sequence[str] | None = None) -> set[Counts]:
        """Counts of these types (of all) such that every utterance is dominated by one of them."""
        self._digest()
        places = [self._places[kind] for kind in (self.types if types is None else types)]
        return _worst(
            tuple(counts[place] if place < len(counts) else 0 for place in places)
            for counts in self._utterances
        )

    def worst_users(self, types: Sequence[str] | None = None) -> set[Counts]:
        """The same for users."""
        chosen = self.types if types is None else types
        return _worst(tuple(total[kind] for kind in chosen) for total in self._users.values())


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
