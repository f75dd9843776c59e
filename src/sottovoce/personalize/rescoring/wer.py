"""Word errors: pooled over a corpus, with intervals that account for clients.

WER = (substitutions + deletions + insertions) / reference words, summed before dividing. It can
exceed 1. Errors of one person are correlated, so the bootstrap samples clients, not utterances.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.lists import NBest


@dataclass(frozen=True, slots=True)
class WordErrors:
    """Additive error counts.

    >>> total = word_errors("call mum now", "call mom") + word_errors("hang up", "hang up")
    >>> total
    WordErrors(substitutions=1, deletions=1, insertions=0, words=5)
    >>> total.rate
    0.4
    """

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    words: int = 0

    @property
    def count(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        if self.words == 0:
            return math.inf if self.count else 0.0
        return self.count / self.words

    def __add__(self, other: "WordErrors") -> "WordErrors":
        return WordErrors(
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
            self.words + other.words,
        )


class Interval(NamedTuple):
    """A percentile bootstrap interval."""

    low: float
    high: float


def word_errors(reference: str, hypothesis: str) -> WordErrors:
    """The errors of one utterance, by a minimum-edit alignment."""
    spoken, recognised = reference.split(), hypothesis.split()
    if spoken == recognised:
        return WordErrors(words=len(spoken))
    kinds = [edit.tag for edit in Levenshtein.editops(spoken, recognised)]
    return WordErrors(
        kinds.count("replace"), kinds.count("delete"), kinds.count("insert"), len(spoken)
    )


def pooled(pairs: Iterable[tuple[str, str]]) -> WordErrors:
    """The pooled errors of (reference, hypothesis) pairs."""
    return sum((word_errors(*pair) for pair in pairs), WordErrors())


def reference_of(nbest: NBest) -> str:
    if nbest.reference is None:
        raise InvalidInput(f"Expected a reference for {nbest.id!r}, got none.")
    return nbest.reference


def oracle(nbest: NBest) -> WordErrors:
    """The errors of the best hypothesis in the list.

    >>> from sottovoce.personalize.nbest.lists import Hypothesis
    >>> hypotheses = (Hypothesis("call mom"), Hypothesis("call mum"))
    >>> oracle(NBest("u", hypotheses, reference="call mum")).count
    0
    """
    reference = reference_of(nbest)
    texts = {h.text for h in nbest.hypotheses} or {""}
    return min((word_errors(reference, text) for text in sorted(texts)), key=lambda e: e.count)


def split_errors(
    reference: str, hypothesis: str, chosen: Callable[[str], bool]
) -> tuple[WordErrors, WordErrors]:
    """Errors on chosen words and on the rest; an insertion counts for the inserted word.

    >>> split_errors("call mum please", "call mom please now", lambda w: w in {"mum", "now"})
    (WordErrors(substitutions=1, deletions=0, insertions=1, words=1),
     WordErrors(substitutions=0, deletions=0, insertions=0, words=2))
    """
    spoken, recognised = reference.split(), hypothesis.split()
    inside, outside = WordErrors(), WordErrors()

    def add(word: str, errors: WordErrors) -> None:
        nonlocal inside, outside
        if chosen(word):
            inside += errors
        else:
            outside += errors

    for word in spoken:
        add(word, WordErrors(words=1))
    for edit in Levenshtein.editops(spoken, recognised):
        if edit.tag == "insert":
            add(recognised[edit.dest_pos], WordErrors(insertions=1))
        elif edit.tag == "delete":
            add(spoken[edit.src_pos], WordErrors(deletions=1))
        else:
            add(spoken[edit.src_pos], WordErrors(substitutions=1))
    return inside, outside


def rate_interval(
    clients: Sequence[WordErrors], *, confidence: float = 0.95, draws: int = 2000, seed: int = 0
) -> Interval:
    """Bootstrap interval of the pooled rate, sampling clients with replacement.

    >>> rate_interval([WordErrors(1, words=10), WordErrors(2, words=20)])
    Interval(low=0.1, high=0.1)
    """
    counts, words = _columns(clients)
    picked = _resamples(len(clients), draws, seed)
    rates = counts[picked].sum(axis=1) / np.maximum(words[picked].sum(axis=1), 1)
    return _percentiles(rates, confidence)


def change_interval(
    before: Sequence[WordErrors],
    after: Sequence[WordErrors],
    *,
    confidence: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Interval:
    """Bootstrap interval of the relative change of the rate, for the same clients.

    >>> before, after = [WordErrors(4, words=9)] * 5, [WordErrors(3, words=9)] * 5
    >>> change_interval(before, after)
    Interval(low=-0.25, high=-0.25)
    """
    if len(before) != len(after):
        raise InvalidInput(
            f"Expected the same clients before and after, got {len(before)} and {len(after)}."
        )
    old, _ = _columns(before)
    new, _ = _columns(after)
    picked = _resamples(len(before), draws, seed)
    base = old[picked].sum(axis=1)
    changes = (new[picked].sum(axis=1) - base) / np.maximum(base, 1)
    return _percentiles(changes, confidence)


def _columns(clients: Sequence[WordErrors]) -> tuple[np.ndarray, np.ndarray]:
    if not clients:
        raise InvalidInput("Expected the errors of at least one client, got none.")
    counts = np.array([errors.count for errors in clients], dtype=np.float64)
    return counts, np.array([errors.words for errors in clients], dtype=np.float64)


def _resamples(size: int, draws: int, seed: int) -> np.ndarray:
    _validate.at_least_one("draws", draws)
    # Seeded, so that intervals are reproducible; no secrecy is needed.
    return np.random.default_rng(seed).integers(size, size=(draws, size))


def _percentiles(values: np.ndarray, confidence: float) -> Interval:
    if not 0 < confidence < 1:
        raise InvalidInput(f"Expected confidence in (0, 1), got {confidence:g}.")
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return Interval(float(low), float(high))
