"""Value dissociation: surrogates counted in the corpus that is to be released.

A first pass over the corpus collects the values that the detector finds. Raw counts depend on the
private values, and the statement says so; counts from a private histogram have a stated cost.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from sottovoce.corpora import Utterance
from sottovoce.deid.detect import Detector
from sottovoce.deid.replace import PrivateHistogram, Surrogates, from_corpus, public_surrogates
from sottovoce.deid.replace.letters import canonical
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

_BATCH = 512


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
