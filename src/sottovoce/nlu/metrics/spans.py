"""Slots as spans of words, and how many of them were found.

Labels that no BIO scheme allows are read as CoNLL's script reads them: an I-x that continues
nothing begins a span.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sottovoce.corpora import OUTSIDE, Utterance


class SlotSpan(NamedTuple):
    """Words start to end, without the last, are of this type."""

    start: int
    end: int
    type: str


def slot_spans(slots: Sequence[str]) -> list[SlotSpan]:
    """
    >>> slot_spans(("B-city", "I-city", "B-city", "O", "I-day"))
    [SlotSpan(start=0, end=2, type='city'), SlotSpan(start=2, end=3, type='city'),
     SlotSpan(start=4, end=5, type='day')]
    """
    spans: list[SlotSpan] = []
    kind, start = "", -1
    for position, label in enumerate(slots):
        if start >= 0 and (label[:2] != "I-" or label[2:] != kind):
            spans.append(SlotSpan(start, position, kind))
            start = -1
        if start < 0 and label != OUTSIDE:
            kind, start = label[2:], position
    if start >= 0:
        spans.append(SlotSpan(start, len(slots), kind))
    return spans


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """Spans that are there, that were found, and that are both, to the word and by type.

    Where there is nothing to divide by the answer is 0, as seqeval has it.

    >>> found = SpanCounts(reference=4, hypothesis=2, both=1)
    >>> found.precision, found.recall, round(found.f1, 3)
    (0.5, 0.25, 0.333)
    """

    reference: int = 0
    hypothesis: int = 0
    both: int = 0

    @property
    def precision(self) -> float:
        return self.both / self.hypothesis if self.hypothesis else 0.0

    @property
    def recall(self) -> float:
        return self.both / self.reference if self.reference else 0.0

    @property
    def f1(self) -> float:
        total = self.reference + self.hypothesis
        return 2 * self.both / total if total else 0.0


def slot_precision(right: Utterance, guess: Utterance) -> tuple[float, float]:
    """Of the spans that were found, those that are right; a metric (see `registry`)."""
    found = set(slot_spans(guess.slots))
    return len(found.intersection(slot_spans(right.slots))), len(found)


def slot_recall(right: Utterance, guess: Utterance) -> tuple[float, float]:
    """Of the spans that are there, those that were found."""
    return slot_precision(guess, right)


def spans_by_type(
    reference: Iterable[Sequence[str]], hypothesis: Iterable[Sequence[str]]
) -> dict[str, SpanCounts]:
    """The counts of each slot type, by name; both are labels, utterance by utterance.

    >>> spans_by_type([("B-city", "O")], [("B-city", "B-day")])
    {'city': SpanCounts(reference=1, hypothesis=1, both=1),
     'day': SpanCounts(reference=0, hypothesis=1, both=0)}
    """
    there: Counter[str] = Counter()
    found: Counter[str] = Counter()
    both: Counter[str] = Counter()
    for right, guess in zip(reference, hypothesis, strict=True):
        wanted, given = slot_spans(right), slot_spans(guess)
        there.update(span.type for span in wanted)
        found.update(span.type for span in given)
        both.update(span.type for span in set(wanted).intersection(given))
    return {
        name: SpanCounts(there[name], found[name], both[name]) for name in sorted(there | found)
    }
