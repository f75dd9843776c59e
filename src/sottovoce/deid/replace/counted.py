"""Surrogates counted in the corpus that is to be released (value dissociation).

A first pass collects the values that the detector finds. Raw counts depend on the private values,
and the statement says so; a private histogram has a stated cost.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from sottovoce import _validate
from sottovoce.corpora import Utterance
from sottovoce.deid.detect import Detector
from sottovoce.deid.replace.forms import canonical
from sottovoce.deid.replace.public import public_surrogates
from sottovoce.deid.replace.surrogates import Surrogates, from_corpus
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import SurrogateSource
from sottovoce.privacy.noise import NoiseSource, laplace
from sottovoce.privacy.recipes.deid import histogram_threshold

_BATCH = 512


class PrivateHistogram:
    """Counts at most one value per user, and releases the counts once.

    Laplace noise of scale 1/epsilon is added to the counts of the values that occur, and noisy
    counts below 1 + ln(1/(2 delta))/epsilon are dropped, so a value of a single user appears with
    probability at most delta. Replacing a user (or one token) changes two counts, hence the release
    costs 2 epsilon and 2 delta.

    >>> counted = PrivateHistogram(epsilon=1.0, delta=1e-6)
    >>> for number in range(200):
    ...     counted.add(f"user {number}", "Rome" if number % 2 else "Oslo")
    >>> sorted(counted.release(NoiseSource(), "LOC").values)
    ['oslo', 'rome']
    """

    def __init__(self, *, epsilon: float, delta: float) -> None:
        self.epsilon = _validate.positive("histogram epsilon", epsilon)
        self.delta = _validate.positive("histogram delta", delta)
        self._counts: Counter[str] = Counter()
        self._users: set[str] = set()
        self._released = False

    @property
    def cost(self) -> dict[str, float]:
        """The cost of the release under replacement of one user or one token."""
        return {"epsilon": 2 * self.epsilon, "delta": 2 * self.delta}

    def add(self, user: str, value: str) -> None:
        """Count the first value of a user; later values of the same user are ignored."""
        user = unicodedata.normalize("NFKC", user).strip()
        if not user:
            raise InvalidInput(
                "Expected a user for every value of a private histogram, got none: name the users, "
                "since each may be counted only once."
            )
        if user not in self._users:
            self._users.add(user)
            self._counts[canonical(value)] += 1

    def add_all(self, pairs: Iterable[tuple[str, str]]) -> None:
        for user, value in pairs:
            self.add(user, value)

    def release(self, source: NoiseSource, kind: str) -> Surrogates:
        """The noisy histogram as a surrogate list; only once, because each release costs."""
        if self._released:
            raise InvalidInput("Expected only one release of a private histogram, got a second.")
        self._released = True
        values = sorted(self._counts)
        if not values:
            raise InvalidInput(f"Expected values of {kind} to count, got none.")
        noisy = np.array([self._counts[value] for value in values], dtype=np.float64)
        noisy += laplace(len(values), 1 / self.epsilon, source)
        threshold = histogram_threshold(self.epsilon, self.delta)
        kept = [(value, float(n)) for value, n in zip(values, noisy, strict=True) if n > threshold]
        if len(kept) < 2:
            raise InvalidInput(
                f"Expected at least two values of {kind} above the threshold of {threshold:.1f} "
                f"users, got {len(kept)}: use a public list."
            )
        return Surrogates(
            tuple(value for value, _ in kept),
            tuple(count for _, count in kept),
            SurrogateSource.DP_HISTOGRAM,
            f"private histogram of {kind}",
            self.cost,
        )


def counted_surrogates(
    utterances: Iterable[Utterance], detector: Detector
) -> dict[str, Surrogates]:
    """The values of each type with their frequencies, without any guarantee.

    >>> from sottovoce.deid.detect import Gazetteer
    >>> from sottovoce.deid.detect.detector import utterance_of
    >>> calls = [utterance_of(f"call {name}") for name in ("anna", "ben", "anna")]
    >>> counted_surrogates(calls, Gazetteer({"PER": ["anna", "ben"]}))["PER"].weights
    (2.0, 1.0)
    """
    counts: dict[str, Counter[str]] = {}
    for kind, _, value in _values(utterances, detector):
        counts.setdefault(kind, Counter())[canonical(value)] += 1
    return {kind: from_corpus(count) for kind, count in counts.items() if len(count) > 1}


def private_surrogates(
    utterances: Iterable[Utterance],
    detector: Detector,
    *,
    epsilon: float,
    delta: float,
    source: NoiseSource,
) -> dict[str, Surrogates]:
    """The values of each type from a private histogram, with one value per user.

    A type with too few users keeps its public list. That it had too few is also an output of the
    histogram, so the cost is the same.
    """
    histograms: dict[str, PrivateHistogram] = {}
    for kind, user, value in _values(utterances, detector):
        if kind not in histograms:
            histograms[kind] = PrivateHistogram(epsilon=epsilon, delta=delta)
        histograms[kind].add(user, value)
    return {
        kind: _released(histogram, source, kind) for kind, histogram in sorted(histograms.items())
    }


def _released(histogram: PrivateHistogram, source: NoiseSource, kind: str) -> Surrogates:
    try:
        return histogram.release(source, kind)
    except InvalidInput:
        public = public_surrogates(kind)
        assert public is not None
        return replace(public, histogram=histogram.cost)


def _values(utterances: Iterable[Utterance], detector: Detector) -> Iterator[tuple[str, str, str]]:
    """Type, user and value of every detected value whose type has a public list.

    Other types (messages, numbers) would disclose private text as a surrogate of someone else's
    value.
    """
    source = iter(utterances)
    while batch := list(islice(source, _BATCH)):
        for utterance, spans in zip(batch, detector.find(batch), strict=True):
            for start, end, kind in spans:
                if public_surrogates(kind) is not None:
                    yield kind, utterance.user, utterance.text[start:end]
