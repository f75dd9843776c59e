"""Interpolated Kneser-Ney smoothing over sorted arrays (Chen and Goodman 1998).

The highest order counts occurrences; lower orders count the distinct contexts that an n-gram
continues. A discount D = n1 / (n1 + 2 n2) is taken from every count and given to the shorter
history: p(w|h) = max(c(hw) - D, 0) / c(h) + D N(h) / c(h) p(w|h').
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.ngram.model import END, NEVER, START, Ints, NGramModel, Order
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary


def train_ngram(lines: Iterable[str], vocabulary: Vocabulary, order: int = 4) -> NGramModel:
    """Train a model of the given order over a fixed vocabulary.

    >>> words = Vocabulary.from_text(["call mum", "call dad"], size=9)
    >>> model = train_ngram(["call mum", "call dad", "call mum now"], words, order=2)
    >>> mum, dad = model.score([["call", "mum"], ["call", "dad"]])
    >>> mum > dad
    True
    """
    _validate.at_least_one("order", order)
    words = (*vocabulary.words, START, END)
    index = {word: place for place, word in enumerate(words)}
    stream = _stream(lines, index, order)
    if order * math.log2(len(words) + 1) >= 63:
        raise InvalidInput(
            f"Expected a vocabulary of fewer than {int(2 ** (63 / order)) - 1} words at order "
            f"{order}, got {len(words)}."
        )
    counts = _continuation_counts(stream, len(words), order)
    orders = _smoothed(counts, len(words), index[START])
    return NGramModel(words, tuple(orders), vocabulary)


def perplexity(model: NGramModel, lines: Iterable[str]) -> float:
    """exp of the mean negative log probability per word, including sentence ends."""
    sentences = [line.split() for line in lines]
    events = sum(len(sentence) + 1 for sentence in sentences)
    if not events:
        raise InvalidInput("Expected text to measure perplexity on, got none.")
    return math.exp(-math.fsum(model.score(sentences)) / events)


def _stream(lines: Iterable[str], index: dict[str, int], order: int) -> Ints:
    """All sentences concatenated, separated by order - 1 gaps (-1) so that no n-gram crosses."""
    unknown = index[UNKNOWN]
    ids: list[int] = []
    gap = [-1] * max(order - 1, 1)
    for line in lines:
        words = line.split()
        if words:
            ids += [*gap, index[START], *(index.get(word, unknown) for word in words), index[END]]
    if not ids:
        raise InvalidInput("Expected public text to train on, got none.")
    return np.array(ids, dtype=np.int64)


def _continuation_counts(stream: Ints, size: int, order: int) -> list[tuple[Ints, Vector]]:
    """Plain keys (base `size`) and counts for every length, shortest first."""
    found: list[tuple[Ints, Vector]] = []
    for length in range(1, order + 1):
        windows = np.lib.stride_tricks.sliding_window_view(stream, length)
        windows = windows[(windows >= 0).all(axis=1)]
        keys, counts = np.unique(_plain(windows, size), return_counts=True)
        found.append((keys, counts.astype(np.float64)))
    for length in range(order - 1, 0, -1):
        keys, occurrences = found[length - 1]
        # The number of distinct preceding words: suffixes of the longer n-grams. N-grams at the
        # start of a sentence have no predecessor, and keep their counts.
        followers = found[length][0] % size**length
        ends, different = np.unique(followers, return_counts=True)
        continued: Vector = occurrences.copy()
        continued[np.searchsorted(keys, ends)] = different
        found[length - 1] = (keys, continued)
    return found


def _smoothed(counts: list[tuple[Ints, Vector]], size: int, start: int) -> list[Order]:
    keys, mass = counts[0]
    unigram = np.zeros(size)
    unigram[keys] = mass
    unigram[start] = 0.0
    # Add one half, so that every word of the public vocabulary is possible.
    unigram += 0.5
    unigram[start] = 0.0
    probabilities = unigram / unigram.sum()
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(probabilities), NEVER * math.log(10))
    orders = [Order(np.arange(size, dtype=np.int64), logs, np.zeros(size))]
    rows = {1: np.arange(size, dtype=np.int64)}
    plain = {1: np.arange(size, dtype=np.int64)}
    lower = probabilities
    for length in range(2, len(counts) + 1):
        keys, mass = counts[length - 1]
        contexts = rows[length - 1][np.searchsorted(plain[length - 1], keys // size)]
        shorter = np.searchsorted(plain[length - 1], keys % size ** (length - 1))
        discount = _discount(mass)
        total = np.bincount(contexts, mass, minlength=orders[-1].keys.size)
        kinds = np.bincount(contexts, minlength=orders[-1].keys.size)
        left = np.divide(discount * kinds, total, out=np.ones_like(total), where=total > 0)
        probability = (mass - discount) / total[contexts] + left[contexts] * lower[shorter]
        orders[-1] = Order(orders[-1].keys, orders[-1].log_probability, np.log(left))
        # Rows are sorted by (row of the context, word), which is also the order of plain keys.
        stored = contexts * size + keys % size
        orders.append(Order(stored, np.log(probability), np.zeros(len(keys))))
        rows[length] = np.arange(len(keys), dtype=np.int64)
        plain[length] = keys
        lower = probability
    return orders


def _discount(mass: Vector) -> float:
    ones, twos = int((mass == 1).sum()), int((mass == 2).sum())
    return ones / (ones + 2 * twos) if ones and twos else 0.5


def _plain(windows: NDArray[np.int64], size: int) -> Ints:
    keys = np.zeros(len(windows), dtype=np.int64)
    for column in windows.T:
        keys = keys * size + column
    return keys
