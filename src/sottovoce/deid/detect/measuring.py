"""Measure a detector while it works, wherever the text has annotations.

A release of annotated text knows what its detector missed: the annotated values that no mark
covers are still in the text. The counts belong in the private part of the manifest.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

from sottovoce.corpora import OUTSIDE, Span, Utterance, spans_of
from sottovoce.deid.detect.combination import Combination
from sottovoce.deid.detect.detector import Detector
from sottovoce.deid.detect.evaluation import Evaluation, TypeRecall, evaluate
from sottovoce.deid.detect.labels import MAPPINGS, LabelMap, mapping
from sottovoce.errors import InvalidInput

_BATCH = 1024


class Measuring(Combination):
    """The same detectors, which also compare what they find with the annotations they meet.

    >>> from sottovoce.deid.detect import Gazetteer
    >>> watched = Measuring([Gazetteer({"PER": ["ann"]})])
    >>> calls = [Utterance(tokens=("call", name), slots=("O", "B-PER")) for name in ("ann", "bo")]
    >>> _ = watched.find(calls)
    >>> watched.evaluation().types["PER"].missed_values
    1
    """

    def __init__(self, detectors: Sequence[Detector], labels: LabelMap | None = None) -> None:
        super().__init__(detectors)
        self._mappings = [labels or mapping("standard"), *(mapping(name) for name in MAPPINGS)]
        self._parts: list[Evaluation] = []
        self._lock = threading.Lock()
        self._finished = False
        self.unknown: set[str] = set()
        """Labels of annotations that no mapping knows: they were not counted."""

    @classmethod
    def watching(cls, combined: Combination, labels: LabelMap | None = None) -> "Measuring":
        """A combination with its allow list and its guard, measured."""
        made = cls(combined.detectors, labels)
        made.allowed, made.guard = combined.allowed, combined.guard
        return made

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        found = super().find(batch)
        annotated = [
            (utterance, marks)
            for utterance, marks in zip(batch, found, strict=True)
            if any(slot != OUTSIDE for slot in utterance.slots)
        ]
        if annotated and not self._finished:
            self._count([each for each, _ in annotated], [marks for _, marks in annotated])
        return found

    def measure(self, utterances: Iterable[Utterance]) -> None:
        """Compare with annotations before the work, which goes on in processes of its own."""
        annotated = (each for each in utterances if any(slot != OUTSIDE for slot in each.slots))
        while batch := list(islice(annotated, _BATCH)):
            self.find(batch)

    def finish(self) -> None:
        """Count no more: everything was measured."""
        self._finished = True

    def evaluation(self) -> Evaluation | None:
        """What was missed of everything so far; None if nothing private was annotated."""
        with self._lock:
            parts = list(self._parts)
        if not parts:
            return None
        kinds = dict.fromkeys(kind for part in parts for kind in part.types)
        return replace(
            parts[0],
            utterances=sum(part.utterances for part in parts),
            public_words=sum(part.public_words for part in parts),
            needless_words=sum(part.needless_words for part in parts),
            types={
                kind: _sum(part.types[kind] for part in parts if kind in part.types)
                for kind in kinds
            },
        )

    def _count(self, batch: Sequence[Utterance], found: list[list[Span]]) -> None:
        labels = self._labels_for({span.type for each in batch for span in spans_of(each)})
        if labels is None:
            return
        try:
            measured = evaluate(_Answers(self, found), batch, labels)
        except InvalidInput:
            return  # nothing private is annotated here
        with self._lock:
            self._parts.append(measured)

    def _labels_for(self, used: set[str]) -> LabelMap | None:
        for labels in self._mappings:
            if used <= {*labels.private, *labels.public}:
                return labels
        known = {
            label: kind
            for labels in reversed(self._mappings)
            for label, kind in labels.private.items()
        }
        public = frozenset(label for labels in self._mappings for label in labels.public)
        with self._lock:
            self.unknown |= used - known.keys() - public
        if not used & known.keys():
            return None
        return LabelMap(known, public=(public | used) - known.keys())


class _Answers:
    """What was found, as a detector that answers once."""

    def __init__(self, detector: Combination, found: list[list[Span]]) -> None:
        self.name, self.detectors, self._found = detector.name, detector.detectors, iter(found)

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        return [next(self._found) for _ in batch]

    def to_json(self) -> dict[str, object]:
        return {}


def _sum(parts: Iterable[TypeRecall]) -> TypeRecall:
    found = list(parts)
    return TypeRecall(
        words=sum(each.words for each in found),
        missed_words=sum(each.missed_words for each in found),
        mistyped_words=sum(each.mistyped_words for each in found),
        values=sum(each.values for each in found),
        missed_values=sum(each.missed_values for each in found),
        confidence=found[0].confidence,
    )
