"""A back-off n-gram model in sorted arrays, with vectorised scoring.

p(w|h) = p_n(w|h) if the n-gram exists, else backoff(h) p(w|h'), where h' is h without its oldest
word. An n-gram is stored under the key (row of its context) * V + w, so the followers of a context
are contiguous and any vocabulary fits in 64 bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary

START, END = "<s>", "</s>"
# Base-10 logarithm of probability 0 in ARPA files.
NEVER = -99.0

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Order:
    """All n-grams of one length: sorted keys, ln p and ln backoff."""

    keys: Ints
    log_probability: Vector
    log_backoff: Vector

    def find(self, keys: Ints) -> Ints:
        """The row of every key, or -1."""
        if not self.keys.size:
            return np.full(keys.shape, -1, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return np.where((self.keys[rows] == keys) & (keys >= 0), rows, -1)


@dataclass(frozen=True, eq=False)
class NGramModel:
    """The words and the orders from 1 up; row i of order 1 is word i.

    `background` is the vocabulary with u(w) that the model was trained for. Without it (a model
    from another toolkit) the model's unigram is used; with Kneser-Ney smoothing that counts
    contexts rather than words, so it is a poorer u.
    """

    words: tuple[str, ...]
    orders: tuple[Order, ...]
    background: Vocabulary | None = None

    def __post_init__(self) -> None:
        missing = [word for word in (START, END, UNKNOWN) if word not in self.index]
        if missing:
            raise InvalidInput(
                f"Expected {', '.join(missing)} among the words of the model, not found."
            )
        spoken = tuple(word for word in self.words if word not in (START, END))
        if self.orders[0].keys.size != len(self.words):
            raise InvalidInput("Expected every word of the model among its unigrams, got fewer.")
        if self.background is not None and self.background.words != spoken:
            raise InvalidInput(
                "Expected a background vocabulary with the model's words, got others."
            )

    @cached_property
    def index(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words without sentence marks, with the background u."""
        if self.background is not None:
            return self.background
        spoken = self._spoken
        mass = np.exp(self.orders[0].log_probability[spoken])
        mass = np.maximum(mass, mass[mass > 0].min() if (mass > 0).any() else 1.0)
        return Vocabulary(tuple(self.words[place] for place in spoken), mass / mass.sum())

    def encode(self, words: Sequence[str]) -> list[int]:
        unknown = self.index[UNKNOWN]
        return [self.index.get(word, unknown) for word in words]

    def score(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> list[float]:
        """ln p of every sentence including its end; factors are over `vocabulary`.

        With factors, p is multiplied by them and, by default, normalised again.
        """
        values, owners = self.score_words(sentences, log_factors, normalise=normalise)
        totals = np.bincount(owners, values, minlength=len(sentences))
        return [float(total) for total in totals]

    def score_words(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> tuple[Vector, Ints]:
        """ln p of every word and sentence end in order, and the sentence each belongs to."""
        histories, words, owners = self._events(sentences)
        values = self.log_probabilities(histories, words)
        if log_factors is not None:
            factors = self._all_factors(log_factors)
            values = values + factors[words]
            if normalise:
                distinct, inverse = np.unique(histories, axis=0, return_inverse=True)
                constants = Normaliser(self, factors).log_constants(distinct)
                values -= constants[inverse.reshape(-1)]
        return values, owners

    def log_probabilities(self, histories: Ints, words: Ints) -> Vector:
        """ln p(word | history) for rows of histories, oldest word first, padded with -1."""
        size, depth = len(self.words), histories.shape[1]
        total = np.zeros(len(words))
        open_ = np.arange(len(words))
        for length in range(depth, -1, -1):
            if length == 0:
                # Row i is word i, so no search is needed.
                total[open_] += self.orders[0].log_probability[words[open_]]
                break
            context = self.context_rows(histories[open_], length)
            keys = np.where(context >= 0, context * size + words[open_], -1)
            rows = self.orders[length].find(keys)
            hit = rows >= 0
            total[open_[hit]] += self.orders[length].log_probability[rows[hit]]
            # Unseen contexts back off with weight 1.
            known = ~hit & (context >= 0)
            total[open_[known]] += self.orders[length - 1].log_backoff[context[known]]
            open_ = open_[~hit]
        return total

    def context_rows(self, histories: Ints, length: int) -> Ints:
        """The row (in the order `length`) of the last `length` words of each history, or -1."""
        if length == 0:
            return np.zeros(len(histories), dtype=np.int64)
        recent = histories[:, histories.shape[1] - length :]
        rows = recent[:, 0]
        for place in range(1, length):
            keys = np.where(rows >= 0, rows * len(self.words) + recent[:, place], -1)
            keys = np.where(recent[:, place] >= 0, keys, -1)
            rows = self.orders[place].find(keys)
        return rows

    def _events(self, sentences: Sequence[Sequence[str]]) -> tuple[Ints, Ints, Ints]:
        """One row per predicted word: history, word, sentence."""
        depth = len(self.orders) - 1
        start, end = self.index[START], self.index[END]
        padding = [-1] * max(depth - 1, 0) + ([start] if depth else [])
        histories: list[list[int]] = []
        words: list[int] = []
        owners: list[int] = []
        for owner, sentence in enumerate(sentences):
            ids = [*padding, *self.encode(sentence), end]
            for place in range(len(padding), len(ids)):
                histories.append(ids[place - depth : place])
                words.append(ids[place])
                owners.append(owner)
        shape = (len(words), depth)
        return (
            np.array(histories, dtype=np.int64).reshape(shape),
            np.array(words, dtype=np.int64),
            np.array(owners, dtype=np.int64),
        )

    def _all_factors(self, log_factors: Vector) -> Vector:
        """Factors of all words of the model; the start and end symbols keep a factor of 1."""
        if len(log_factors) != len(self._spoken):
            raise InvalidInput(f"Expected {len(self._spoken)} log factors, got {len(log_factors)}.")
        factors = np.zeros(len(self.words))
        factors[self._spoken] = log_factors
        return factors

    @cached_property
    def _spoken(self) -> Ints:
        """The places of all words except the sentence marks."""
        marks = (START, END)
        spoken = [place for place, word in enumerate(self.words) if word not in marks]
        return np.array(spoken, dtype=np.int64)


class Normaliser:
    """Z(h) = sum_w factor(w) p(w|h), computed from the followers of h only.

    Z(h) = backoff(h) Z(h') + sum over seen w of factor(w) (p(w|h) - backoff(h) p(w|h')), so the
    cost of a history is its number of followers, not the vocabulary size.
    """

    def __init__(self, model: NGramModel, factors: Vector) -> None:
        self.model, self.factors = model, np.exp(factors)
        unigrams = np.exp(model.orders[0].log_probability)
        self.base = float(self.factors @ unigrams)

    def log_constants(self, histories: Ints) -> Vector:
        """ln Z of every row of histories, extended by one word at a time."""
        totals = np.full(len(histories), self.base)
        for length in range(1, histories.shape[1] + 1):
            rows = self.model.context_rows(histories, length)
            # Histories with the same last words share their constant so far.
            known = np.flatnonzero(rows >= 0)
            distinct, first, inverse = np.unique(
                rows[known], return_index=True, return_inverse=True
            )
            some = known[first]
            totals[known] = self._one_longer(histories[some], length, distinct, totals[some])[
                inverse
            ]
        constants: Vector = np.log(totals)
        return constants

    def _one_longer(self, histories: Ints, length: int, rows: Ints, shorter: Vector) -> Vector:
        """Z of contexts of `length` words, by their rows, from Z of those one word shorter."""
        order, size = self.model.orders[length], len(self.model.words)
        backoff = np.exp(self.model.orders[length - 1].log_backoff[rows])
        first = np.searchsorted(order.keys, rows * size)
        counts = np.searchsorted(order.keys, (rows + 1) * size) - first
        owners = np.repeat(np.arange(len(rows)), counts)
        # The followers of all contexts, concatenated.
        places = np.arange(len(owners)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        words = order.keys[places] - rows[owners] * size
        recent = histories[owners, histories.shape[1] - length + 1 :]
        lower = np.exp(self.model.log_probabilities(recent, words))
        seen = np.exp(order.log_probability[places])
        gained = self.factors[words] * (seen - backoff[owners] * lower)
        longer: Vector = backoff * shorter + np.bincount(owners, gained, minlength=len(rows))
        return longer
