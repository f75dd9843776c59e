"""Semantic error rate: SER = (S + I + D) / (C + S + D), pooled over the corpus.

The items of an utterance are its intent and its slots, each with name and value, so the
denominator is the number of reference slots plus one per utterance. SER can exceed 1. Items are
aligned by edit distance (Su et al. 2018) or, as a common variant, matched by slot name.

Invalid BIO labels are read as in CoNLL's evaluation script: an I-x that continues no span starts
one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rapidfuzz.distance import Levenshtein

from sottovoce import _validate
from sottovoce.corpora import OUTSIDE, Utterance


class SlotSpan(NamedTuple):
    """A span of words: tokens[start:end] has this type."""

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
    """Numbers of reference spans, of predicted spans, and of exact matches (bounds and type).

    A ratio with denominator 0 is 0, as in seqeval.

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
    """Correct spans and predicted spans; a metric (see `scores`)."""
    found = set(slot_spans(guess.slots))
    return len(found.intersection(slot_spans(right.slots))), len(found)


def slot_recall(right: Utterance, guess: Utterance) -> tuple[float, float]:
    """Correct spans and reference spans; a metric (see `scores`)."""
    return slot_precision(guess, right)


def spans_by_type(
    reference: Iterable[Sequence[str]], hypothesis: Iterable[Sequence[str]]
) -> dict[str, SpanCounts]:
    """Span counts by slot type; both arguments are sequences of labels, one per utterance.

    >>> spans_by_type([("B-city", "O")], [("B-city", "B-day")])
    {'city': SpanCounts(reference=1, hypothesis=1, both=1),
     'day': SpanCounts(reference=0, hypothesis=1, both=0)}
    """
    expected: Counter[str] = Counter()
    found: Counter[str] = Counter()
    both: Counter[str] = Counter()
    for right, guess in zip(reference, hypothesis, strict=True):
        wanted, given = slot_spans(right), slot_spans(guess)
        expected.update(span.type for span in wanted)
        found.update(span.type for span in given)
        both.update(span.type for span in set(wanted).intersection(given))
    return {
        name: SpanCounts(expected[name], found[name], both[name])
        for name in sorted(expected | found)
    }


Alignment = Literal["levenshtein", "names"]
ALIGNMENTS = ("levenshtein", "names")

INTENT = ""
"""The item name of the intent; no slot has an empty name."""


class Item(NamedTuple):
    """The intent or one slot of an utterance."""

    name: str
    value: str


def items_of(intent: str, tokens: Sequence[str], slots: Sequence[str]) -> list[Item]:
    """The intent, then the slots in word order.

    >>> items_of("call", ("ring", "my", "mum"), ("O", "B-who", "I-who"))
    [Item(name='', value='call'), Item(name='who', value='my mum')]
    """
    spans = slot_spans(slots)
    return [
        Item(INTENT, intent),
        *(Item(kind, " ".join(tokens[start:end])) for start, end, kind in spans),
    ]


@dataclass(frozen=True, slots=True)
class SemanticErrors:
    """Error counts; the counts of several utterances add up.

    >>> errors = SemanticErrors(correct=1, substitutions=1, insertions=2, deletions=2)
    >>> errors.rate
    1.25
    """

    correct: int = 0
    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0

    @property
    def count(self) -> int:
        return self.substitutions + self.insertions + self.deletions

    @property
    def items(self) -> int:
        """Of the reference."""
        return self.correct + self.substitutions + self.deletions

    @property
    def rate(self) -> float:
        return self.count / self.items if self.items else 0.0

    def __add__(self, other: "SemanticErrors") -> "SemanticErrors":
        return SemanticErrors(
            self.correct + other.correct,
            self.substitutions + other.substitutions,
            self.insertions + other.insertions,
            self.deletions + other.deletions,
        )


def semantic_errors(
    reference: Sequence[Item], hypothesis: Sequence[Item], alignment: Alignment = "levenshtein"
) -> SemanticErrors:
    """The errors of one utterance; see `items_of`.

    >>> right = [Item("", "play"), Item("song", "two steps behind"), Item("artist", "def leppard")]
    >>> semantic_errors(right, [Item("", "play"), Item("song", "two steps"), right[2]])
    SemanticErrors(correct=2, substitutions=1, insertions=0, deletions=0)
    """
    _validate.one_of("alignment", alignment, ALIGNMENTS)
    if reference == hypothesis:
        return SemanticErrors(correct=len(reference))
    if alignment == "names":
        return _by_name(reference, hypothesis)
    kinds = Counter(edit.tag for edit in Levenshtein.editops(reference, hypothesis))
    wrong, lost = kinds["replace"], kinds["delete"]
    return SemanticErrors(len(reference) - wrong - lost, wrong, kinds["insert"], lost)


def _by_name(reference: Sequence[Item], hypothesis: Sequence[Item]) -> SemanticErrors:
    """Match items of the same name, equal values first."""
    expected: defaultdict[str, Counter[str]] = defaultdict(Counter)
    given: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for items, side in (reference, expected), (hypothesis, given):
        for name, value in items:
            side[name][value] += 1
    total = SemanticErrors()
    for name in expected | given:
        wanted, found = expected[name], given[name]
        correct = (wanted & found).total()
        left, surplus = wanted.total() - correct, found.total() - correct
        wrong = min(left, surplus)
        total += SemanticErrors(correct, wrong, surplus - wrong, left - wrong)
    return total
