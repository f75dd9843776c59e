"""The cache of one client: what this device heard, and what of it may leave.

Two sets of counts are kept. The *personal* counts never leave the device and follow every
utterance. The *contribution* is what the server may see: capped at a mass and at a mass per word
for user-level privacy, and handed over in increments. Caps are applied when words are heard, not
when they are sent, so a client who is not sampled gets no second chance.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce.corpora.atomic import text_output
from sottovoce.errors import InvalidInput
from sottovoce.personalize.counting import Counting
from sottovoce.personalize.nbest import NBest
from sottovoce.personalize.smoothing import Dirichlet, Smoothing
from sottovoce.personalize.vocabulary import Vector, Vocabulary
from sottovoce.privacy.recipes.federate import Cap


@dataclass(frozen=True)
class Caps:
    """The most that one user may contribute, in counts; `None` is no cap."""

    mass: float | None = None
    per_word: float | None = None
    span: Cap = Cap.LIFETIME

    def __post_init__(self) -> None:
        for name, value in (("mass cap", self.mass), ("word cap", self.per_word)):
            if value is not None:
                _validate.positive(name, value)

    def in_units(self, unit: int) -> tuple[float, float]:
        """Both caps in units of counting; whole ones where units are whole."""

        def scaled(cap: float | None) -> float:
            if cap is None:
                return math.inf
            return math.floor(cap * unit) if unit > 1 else cap

        return scaled(self.mass), scaled(self.per_word)


class ClientCache:
    """Weighted counts of one client.

    >>> from sottovoce.personalize.nbest import Hypothesis
    >>> words = Vocabulary(("call", "mum", "<unk>"), [0.4, 0.4, 0.2])
    >>> cache = ClientCache(words, Counting(), Caps(mass=3.0, per_word=1.5))
    >>> for _ in range(2):
    ...     cache.add(NBest("u", (Hypothesis("call mum"),)))
    >>> cache.personal().tolist(), cache.take_increment().tolist()
    ([2.0, 2.0, 0.0], [1.5, 1.5, 0.0])
    >>> cache.take_increment().tolist()
    [0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        counting: Counting,
        caps: Caps | None = None,
        *,
        capacity: int | None = None,
    ) -> None:
        self.vocabulary, self.counting, self.caps = vocabulary, counting, caps or Caps()
        self.capacity = capacity
        if capacity is not None:
            _validate.at_least_one("capacity", capacity)
        self._personal: dict[int, float] = {}
        self._pending: dict[int, float] = {}
        self._sent: dict[int, float] = {}
        # What counts against the caps; forgotten at the end of a round only if caps are per round.
        self._spent: dict[int, float] = {}

    def add(self, heard: NBest) -> None:
        """Count one utterance by the ranks of its first pass."""
        places, added = self.counting.count(heard, self.vocabulary)
        mass_cap, word_cap = self.caps.in_units(self.counting.unit)
        room = mass_cap - sum(self._spent.values())
        for place, mass in zip(places.tolist(), added.tolist(), strict=True):
            self._personal[place] = self._personal.get(place, 0.0) + mass
            spent = self._spent.get(place, 0.0)
            allowed = min(mass, word_cap - spent, room)
            if allowed > 0:
                self._pending[place] = self._pending.get(place, 0.0) + allowed
                self._spent[place] = spent + allowed
                room -= allowed
        if self.capacity is not None and len(self._personal) > self.capacity:
            self._forget()

    def personal(self) -> Vector:
        """The personal counts, in counts."""
        return self._dense(self._personal) / self.counting.unit

    def distribution(self, smoothing: Smoothing | None = None) -> Vector:
        """q_i: the personal distribution, ready after every utterance."""
        smooth = smoothing or Dirichlet()
        return smooth(self.personal(), self.vocabulary.unigram)

    @property
    def mass(self) -> float:
        """c_i: the personal counts summed up."""
        return math.fsum(self._personal.values()) / self.counting.unit

    def take_increment(self) -> Vector:
        """What is new since the last time, in units, to be sent once.

        Save the cache *before* sending: a device that crashes in between then loses an increment,
        where the other order would send it twice and break the caps.
        """
        increment = self._dense(self._pending)
        for place, mass in self._pending.items():
            self._sent[place] = self._sent.get(place, 0.0) + mass
        self.drop_increment()
        return increment

    def drop_increment(self) -> None:
        """Forget what is new without sending it: the client was not sampled in this round."""
        self._pending.clear()
        if self.caps.span is Cap.PER_ROUND:
            self._spent.clear()

    def take_cumulative(self) -> Vector:
        """Everything contributed so far, in units, as the paper sends it every round."""
        self.take_increment()
        return self._dense(self._sent)

    def arrays(self) -> dict[str, Vector]:
        """The whole state as vectors over the vocabulary, for a caller that keeps it elsewhere."""
        return {name: self._dense(getattr(self, f"_{name}")) for name in _PARTS}

    def restore(self, arrays: Mapping[str, Vector]) -> None:
        """Take the state of `arrays` back."""
        for name in _PARTS:
            vector = arrays[name]
            if vector.shape != (len(self.vocabulary),):
                raise InvalidInput(f"Expected {len(self.vocabulary)} saved counts of {name}.")
            counts = {int(place): float(vector[place]) for place in np.flatnonzero(vector)}
            setattr(self, f"_{name}", counts)

    def save(self, path: Path | str) -> None:
        """Write the cache whole or not at all."""
        words = self.vocabulary.words
        parts = {name: getattr(self, f"_{name}") for name in _PARTS}
        state: dict[str, Any] = {"counting": self.counting.to_json()} | {
            name: {words[place]: mass for place, mass in part.items()}
            for name, part in parts.items()
        }
        with text_output(path) as stream:
            json.dump(state, stream, ensure_ascii=False)

    @classmethod
    def load(
        cls,
        path: Path | str,
        vocabulary: Vocabulary,
        caps: Caps | None = None,
        *,
        capacity: int | None = None,
    ) -> Self:
        """Read a cache back; words that the vocabulary has lost are dropped."""
        try:
            state = json.loads(Path(path).read_bytes())
            cache = cls(vocabulary, Counting.from_json(state["counting"]), caps, capacity=capacity)
            for name in _PARTS:
                setattr(cache, f"_{name}", _checked(state[name].items(), vocabulary.index))
        except (LookupError, TypeError, AttributeError, json.JSONDecodeError) as problem:
            raise InvalidInput(f"Expected a saved cache in {path}, but {problem!r}.") from problem
        return cache

    def _dense(self, counts: dict[int, float]) -> NDArray[np.float64]:
        vector = np.zeros(len(self.vocabulary))
        if counts:
            vector[list(counts)] = list(counts.values())
        return vector

    def _forget(self) -> None:
        """Halve everything and keep the heaviest words: old habits fade, memory stays bounded."""
        heaviest = sorted(self._personal.items(), key=lambda item: (-item[1], item[0]))
        self._personal = {place: mass / 2 for place, mass in heaviest[: self.capacity]}


_PARTS = ("personal", "pending", "sent", "spent")


def _checked(items: Iterable[tuple[str, float]], index: Mapping[str, int]) -> dict[int, float]:
    counts = {}
    for word, mass in items:
        _validate.not_negative(f"the saved count of {word!r}", mass)
        if word in index:
            counts[index[word]] = mass
    return counts
