"""How one utterance is counted, and the resulting sensitivity of the counts.

Each first-pass hypothesis counts its words with the weight K(r) of its rank r, up to `max_words`
words. So one utterance has L1 norm at most m S, and L2 norm at most S sqrt(m) if every word counts
once per hypothesis, with S = sum_r K(r). With integer weights, round(64 K), counts are multiples of
1/64: sums are exact and the noise can be discrete.

With `order` 2, pairs of adjacent words are counted instead, including sentence start and end. A
pair is written "call mum", and is looked up in a vocabulary of pairs (see `pairs`).

The sensitivity in the ledger is that of the plan, so it holds only for clients that count by the
plan: the same vocabulary, the same kernel over first-pass ranks, the same caps. A client states its
rules with its contribution, and the server refuses any others.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.ngram.model import END, START
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vocabulary
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.privacy.recipes.federate import (
    INTEGER_WEIGHT,
    Cap,
    Kernel,
    integer_weights,
    kernel_weights,
)

if TYPE_CHECKING:
    from sottovoce.personalize.federated.plan import ReleasePlan


@dataclass(frozen=True, kw_only=True)
class Counting:
    """The public counting rule, the same on every device.

    >>> Counting(sigma=1.0, nbest=20, max_words=15).l1_sensitivity
    26.2997...
    >>> Counting(sigma=1.0, nbest=5, integer=True).weights(5).tolist()
    [64.0, 39.0, 9.0, 1.0, 0.0]
    """

    sigma: float = 5.0
    nbest: int = 20
    kernel: Kernel = Kernel.RAW
    max_words: int = 30
    distinct: bool = False
    integer: bool = False
    order: int = 1

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        _validate.positive("sigma", self.sigma)
        _validate.at_least_one("nbest", self.nbest)
        _validate.at_least_one("max_words", self.max_words)
        if self.order not in (1, 2):
            raise InvalidInput(f"Expected order 1 (words) or 2 (pairs), got {self.order}.")

    @property
    def unit(self) -> int:
        """Units per count of one: 64 with integer weights."""
        return INTEGER_WEIGHT if self.integer else 1

    def weights(self, present: int) -> NDArray[np.float64]:
        """The weight of each rank in units, for a list of `present` hypotheses."""
        return _weights(self, min(present, self.nbest))

    @cached_property
    def kernel_mass(self) -> float:
        """The largest total weight of a word that occurs at every rank, in units.

        A normalised kernel divides by the weights that are present, and rounding may then favour a
        shorter list; so the worst length counts.
        """
        return max(float(self.weights(n).sum()) for n in range(1, self.nbest + 1))

    @property
    def l1_sensitivity(self) -> float:
        """L1 sensitivity of the counts to adding or removing one utterance, in units."""
        return self.max_words * self.kernel_mass

    @property
    def l2_sensitivity(self) -> float:
        if not self.distinct:
            # One word repeated m times in every hypothesis.
            return self.max_words * self.kernel_mass
        return math.sqrt(self.max_words) * self.kernel_mass

    def count(
        self, nbest: NBest, vocabulary: Vocabulary
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The words of one utterance and their masses, in units.

        >>> from sottovoce.personalize.nbest.lists import Hypothesis
        >>> words = Vocabulary(("call", "mum", "<unk>"), [0.4, 0.4, 0.2])
        >>> nbest = NBest("u", (Hypothesis("call mum"), Hypothesis("call bob")))
        >>> places, added = Counting(sigma=1.0).count(nbest, words)
        >>> places.tolist(), added.round(3).tolist()
        ([0, 1, 2], [1.607, 1.0, 0.607])
        """
        kept = nbest.hypotheses[: self.nbest]
        places: list[NDArray[np.int64]] = []
        added: list[NDArray[np.float64]] = []
        for hypothesis, weight in zip(kept, self.weights(len(kept)), strict=True):
            counted = self._counted(hypothesis, vocabulary)
            places.append(counted)
            added.append(np.full(len(counted), weight))
        if not places:
            return np.zeros(0, np.int64), np.zeros(0)
        unique, inverse = np.unique(np.concatenate(places), return_inverse=True)
        mass = np.zeros(len(unique))
        np.add.at(mass, inverse, np.concatenate(added))
        present = mass > 0
        return unique[present], mass[present]

    def _counted(self, hypothesis: Hypothesis, vocabulary: Vocabulary) -> NDArray[np.int64]:
        """The places counted for one hypothesis, in spoken order."""
        if self.order == 1:
            places = vocabulary.encode(hypothesis.words)
        else:
            places = vocabulary.encode(pairs_of(hypothesis.words))
            # Nearly all pairs are unknown; they must not use up max_words.
            places = places[places != vocabulary.index[UNKNOWN]]
        if self.distinct:
            # In spoken order, so that max_words keeps the first ones.
            places = places[np.sort(np.unique(places, return_index=True)[1])]
        return places[: self.max_words]

    def to_json(self) -> dict[str, Any]:
        return {
            "sigma": self.sigma, "nbest": self.nbest, "kernel": str(self.kernel),
            "max_words": self.max_words, "distinct": self.distinct, "integer": self.integer,
            "order": self.order,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Counting":
        try:
            # Rules saved before `order` existed count words; any other missing field is an error.
            data = {"order": 1, **data}
            return cls(**{name: data[name] for name in Counting().to_json()} | data)
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidInput(f"Expected a counting rule, but {problem!r}.") from problem


def pairs_of(words: Sequence[str]) -> list[str]:
    """Adjacent words of a sentence, including its start and end.

    >>> pairs_of(["call", "mum"])
    ['<s> call', 'call mum', 'mum </s>']
    """
    return [f"{before} {word}" for before, word in pairwise((START, *words, END))]


@cache
def _weights(rule: Counting, present: int) -> NDArray[np.float64]:
    weights = kernel_weights(present, rule.sigma, rule.kernel) if present else []
    values = integer_weights(weights) if rule.integer else weights
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


@dataclass(frozen=True)
class Caps:
    """The maximum contribution of one user, in counts; `None` means no cap.

    A lifetime is that of the client's cache: a new cache starts a new lifetime, which costs again
    (see `ReleasePlan.fact`).
    """

    mass: float | None = None
    per_word: float | None = None
    span: Cap = Cap.LIFETIME

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        for name, value in (("mass cap", self.mass), ("word cap", self.per_word)):
            if value is not None:
                _validate.positive(name, value)

    def in_units(self, unit: int) -> tuple[float, float]:
        """Both caps in counting units, rounded down where units are integers."""

        def scaled(cap: float | None) -> float:
            if cap is None:
                return math.inf
            return math.floor(cap * unit) if unit > 1 else cap

        return scaled(self.mass), scaled(self.per_word)

    def to_json(self) -> list[Any]:
        return [self.mass, self.per_word, str(self.span)]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> "Caps":
        try:
            mass, per_word, span = data
        except (TypeError, ValueError) as problem:
            raise InvalidInput(f"Expected a mass cap, a word cap and a span: {problem}.") from None
        return cls(mass, per_word, span)


_RANKS = "first pass"


def rules_of(vocabulary: Vocabulary, plan: "ReleasePlan | None") -> str:
    """The rules a server expects; without a plan only the vocabulary counts."""
    return vocabulary.digest if plan is None else rules(vocabulary, plan.counting, plan.caps)


def rules(vocabulary: Vocabulary, counting: Counting, caps: Caps) -> str:
    """A digest of the vocabulary, kernel and caps.

    >>> words = Vocabulary(("call", "<unk>"), [0.5, 0.5])
    >>> ours = rules(words, Counting(), Caps())
    >>> same_rules(ours, rules(words, Counting(), Caps()))
    True
    >>> same_rules(ours, rules(words, Counting(sigma=9.0), Caps()))
    False
    """
    counted = {"counting": counting.to_json(), "caps": caps.to_json(), "ranks": _RANKS}
    return f"{vocabulary.digest}-{_short(json.dumps(counted, sort_keys=True))}"


def same_rules(stated: str, expected: str) -> bool:
    """Whether counts by the rules `stated` are as expected."""
    if "-" not in expected:
        return stated.split("-")[0] == expected
    return stated == expected


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
