"""The cache of one client: its personal counts, and the part that may be sent.

Two sets of counts are kept. The *personal* counts never leave the device and include every
utterance. The *contribution* is what the server may see: capped in total and per word for
user-level privacy, and sent in increments. Caps are applied when words are counted, not when they
are sent, so a client that is not sampled cannot contribute the same mass later.
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.personalize.federated.counting import Caps, Counting, rules
from sottovoce.personalize.lm.vocabulary import Dirichlet, Smoothing, Vector, Vocabulary
from sottovoce.personalize.nbest.lists import NBest
from sottovoce.privacy.recipes.federate import Cap


class ClientCache:
    """Weighted counts of one client.

    >>> from sottovoce.personalize.nbest.lists import Hypothesis
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
        self._vocabulary, self._counting, self._caps = vocabulary, counting, caps or Caps()
        self.capacity = capacity
        if capacity is not None:
            _validate.at_least_one("capacity", capacity)
        self._personal: dict[int, float] = {}
        self._pending: dict[int, float] = {}
        self._sent: dict[int, float] = {}
        # Mass charged to the caps; reset at the end of a round only for per-round caps.
        self._spent: dict[int, float] = {}

    # Immutable: counts made under one rule must not be sent under another.
    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    @property
    def counting(self) -> Counting:
        return self._counting

    @property
    def caps(self) -> Caps:
        return self._caps

    @property
    def rules(self) -> str:
        """The digest of the vocabulary, kernel and caps that this cache counts by."""
        return rules(self.vocabulary, self.counting, self.caps)

    def add(self, nbest: NBest) -> None:
        """Count one utterance by its first-pass ranks."""
        places, added = self.counting.count(nbest, self.vocabulary)
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
        """The personal counts (not in units)."""
        return self._dense(self._personal) / self.counting.unit

    def distribution(self, smoothing: Smoothing | None = None) -> Vector:
        """q_i: the personal distribution, up to date after every utterance."""
        smooth = smoothing or Dirichlet()
        return smooth(self.personal(), self.vocabulary.unigram)

    @property
    def mass(self) -> float:
        """c_i: the sum of the personal counts."""
        return math.fsum(self._personal.values()) / self.counting.unit

    def take_increment(self) -> Vector:
        """The counts since the last increment, in units; each is returned once.

        Save the cache *before* sending: a device that crashes in between then loses an increment,
        whereas the other order would send it twice and break the caps.
        """
        increment = self._dense(self._pending)
        for place, mass in self._pending.items():
            self._sent[place] = self._sent.get(place, 0.0) + mass
        self.drop_increment()
        return increment

    def drop_increment(self) -> None:
        """Discard the increment: the client was not sampled in this round."""
        self._pending.clear()
        if self.caps.span is Cap.PER_ROUND:
            self._spent.clear()

    def take_cumulative(self) -> Vector:
        """Everything contributed so far, in units, as the paper sends it every round."""
        self.take_increment()
        return self._dense(self._sent)

    def arrays(self) -> dict[str, Vector]:
        """The full state as dense vectors, for callers that store it elsewhere."""
        return {name: self._dense(getattr(self, f"_{name}")) for name in _PARTS}

    def restore(self, arrays: Mapping[str, Vector]) -> None:
        """Restore the state from `arrays`."""
        for name in _PARTS:
            vector = arrays[name]
            if vector.shape != (len(self.vocabulary),):
                raise InvalidInput(
                    f"Expected {len(self.vocabulary)} saved counts of {name}, got {vector.shape}."
                )
            if not (np.isfinite(vector).all() and (vector >= 0).all()):
                raise InvalidInput(f"Expected finite saved counts of {name} >= 0, got others.")
            counts = {int(place): float(vector[place]) for place in np.flatnonzero(vector)}
            setattr(self, f"_{name}", counts)
        self._check_caps("the saved arrays")

    def save(self, path: Path | str) -> None:
        """Write the cache atomically."""
        words = self.vocabulary.words
        parts = {name: getattr(self, f"_{name}") for name in _PARTS}
        state: dict[str, Any] = {
            "counting": self.counting.to_json(),
            "caps": self.caps.to_json(),
            "vocabulary": self.vocabulary.digest,
        } | {
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
        """Read a cache, with the vocabulary and the caps that it was saved with.

        Another vocabulary would assign counts to other words, or lose them and so free room under
        the caps; other caps would start a new lifetime.
        """
        try:
            state = json.loads(Path(path).read_bytes())
            counting = Counting.from_json(state["counting"])
            saved, digest = Caps.from_json(state["caps"]), state["vocabulary"]
            parts = {name: _checked(state[name].items(), vocabulary.index) for name in _PARTS}
        except (LookupError, TypeError, AttributeError, json.JSONDecodeError) as problem:
            raise InvalidInput(
                f"Expected a saved cache with its caps and vocabulary in {path}, but {problem!r}."
            ) from problem
        if digest != vocabulary.digest:
            raise InvalidInput(
                f"Expected the vocabulary that the cache in {path} was counted under, got another."
            )
        if caps not in (None, saved):
            raise InvalidInput(f"Expected the caps of the cache in {path}, {saved}, got {caps}.")
        cache = cls(vocabulary, counting, saved, capacity=capacity)
        for name, part in parts.items():
            setattr(cache, f"_{name}", part)
        cache._check_caps(path)
        return cache

    def _check_caps(self, origin: object) -> None:
        """Reject a saved state in which more is pending than the caps allow."""
        mass, per_word = self.caps.in_units(self.counting.unit)
        spent = self._spent
        total = math.fsum(spent.values())
        excess = any(
            pending > spent.get(place, 0.0) * _SLACK for place, pending in self._pending.items()
        )
        if excess or total > mass * _SLACK or max(spent.values(), default=0.0) > per_word * _SLACK:
            raise InvalidInput(f"Expected a saved cache within its caps in {origin}, got more.")

    def _dense(self, counts: dict[int, float]) -> NDArray[np.float64]:
        vector = np.zeros(len(self.vocabulary))
        if counts:
            vector[list(counts)] = list(counts.values())
        return vector

    def _forget(self) -> None:
        """Halve all counts and keep the largest: old habits fade, memory stays bounded."""
        largest = sorted(self._personal.items(), key=lambda item: (-item[1], item[0]))
        self._personal = {place: mass / 2 for place, mass in largest[: self.capacity]}


_PARTS = ("personal", "pending", "sent", "spent")
# Tolerance for floating-point sums in a different order.
_SLACK = 1 + 1e-9


def _checked(items: Iterable[tuple[str, float]], index: Mapping[str, int]) -> dict[int, float]:
    counts = {}
    for word, mass in items:
        _validate.not_negative(f"the saved count of {word!r}", mass)
        if word not in index:
            raise InvalidInput("Expected saved counts of words in the vocabulary, got others.")
        counts[index[word]] = mass
    return counts
