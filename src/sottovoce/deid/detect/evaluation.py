"""How much a detector finds, type by type, with bounds that a guarantee can be built on.

A private word is found if any span covers it, of whatever type: it will be replaced. Punctuation is
not counted. The lower
bound of the recall is the exact one of Clopper and Pearson (1934), one-sided: with confidence
1 - alpha the true recall on text like the evaluated one is above the alpha quantile of
Beta(found, missed + 1).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from scipy import stats

from sottovoce import _validate
from sottovoce.corpora import Span, Utterance, spans_of
from sottovoce.deid.detect.detector import Detector, fingerprint
from sottovoce.deid.detect.labels import LabelMap
from sottovoce.deid.detect.stability import Stability
from sottovoce.deid.detect.words import Word, words_of
from sottovoce.errors import InvalidInput

CONFIDENCE = 0.95
_BATCH = 256


def recall_lower_bound(found: int, total: int, confidence: float = CONFIDENCE) -> float:
    """The recall that is exceeded with this confidence.

    >>> round(recall_lower_bound(300, 300), 6)
    0.990064
    """
    if not 0 <= found <= total:
        raise InvalidInput(f"Expected found from 0 to total ({total}), got {found}.")
    _validate.between("confidence", confidence, 0.5, 1 - 1e-12)
    return float(stats.beta.ppf(1 - confidence, found, total - found + 1)) if found else 0.0


@dataclass(frozen=True, kw_only=True)
class TypeRecall:
    """Words and whole values of one type: how many there are, and how many were missed."""

    words: int
    missed_words: int
    mistyped_words: int
    values: int
    missed_values: int
    confidence: float = CONFIDENCE

    @property
    def recall(self) -> float:
        return 1 - self.missed_words / self.words

    @property
    def lower(self) -> float:
        """The bound for a word."""
        return recall_lower_bound(self.words - self.missed_words, self.words, self.confidence)

    @property
    def lower_of_values(self) -> float:
        """The bound for a whole value, missed if any of its words is."""
        return recall_lower_bound(self.values - self.missed_values, self.values, self.confidence)

    def to_json(self) -> dict[str, Any]:
        return {
            "words": self.words,
            "missed_words": self.missed_words,
            "mistyped_words": self.mistyped_words,
            "recall": self.recall,
            "recall_lower": self.lower,
            "values": self.values,
            "missed_values": self.missed_values,
            "value_recall_lower": self.lower_of_values,
        }


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a detector found of an annotated corpus. `examples` shows the first misses.

    `fingerprint` is that of the detector: another list of the same name is another detector.
    """

    detector: str
    confidence: float
    utterances: int
    public_words: int
    needless_words: int
    types: dict[str, TypeRecall]
    examples: tuple[tuple[str, str], ...] = ()
    fingerprint: str = ""
    stability: Stability | None = None
    """Whether marks depend on the values beside them, where that was measured."""

    @property
    def recall(self) -> float:
        words = sum(found.words for found in self.types.values())
        return 1 - sum(found.missed_words for found in self.types.values()) / words

    @property
    def precision(self) -> float:
        """The share of the marked words that are private."""
        hits = sum(found.words - found.missed_words for found in self.types.values())
        return hits / (hits + self.needless_words) if hits else 0.0

    def lines(self) -> list[str]:
        """A table for people."""
        rows = [f"{'type':10} {'words':>8} {'missed':>7} {'recall':>7} {'at least':>9}"]
        rows += [
            f"{kind:10} {each.words:8,} {each.missed_words:7,} {each.recall:7.4f} {each.lower:9.4f}"
            for kind, each in sorted(self.types.items())
        ]
        rows.append(f"All: recall {self.recall:.4f}, precision {self.precision:.4f}.")
        return [*rows, f"Stability: {self.stability}."] if self.stability else rows

    def to_json(self) -> dict[str, Any]:
        return {
            "detector": self.detector,
            "fingerprint": self.fingerprint,
            "confidence": self.confidence,
            "utterances": self.utterances,
            "recall": self.recall,
            "precision": self.precision,
            "public_words": self.public_words,
            "needless_words": self.needless_words,
            "types": {kind: found.to_json() for kind, found in sorted(self.types.items())},
            **({"stability": self.stability.to_json()} if self.stability else {}),
        }

    @classmethod
    def from_json(cls, data: Any) -> "Evaluation":
        """Read what `to_json` (or `deid evaluate --json`) wrote; the bounds are computed anew."""
        try:
            confidence = float(data["confidence"])
            names = ("words", "missed_words", "mistyped_words", "values", "missed_values")
            return cls(
                detector=str(data["detector"]),
                fingerprint=str(data.get("fingerprint", "")),
                confidence=confidence,
                utterances=int(data["utterances"]),
                public_words=int(data["public_words"]),
                needless_words=int(data["needless_words"]),
                stability=(Stability.from_json(data["stability"]) if "stability" in data else None),
                types={
                    kind: TypeRecall(
                        confidence=confidence, **{name: int(found[name]) for name in names}
                    )
                    for kind, found in data["types"].items()
                },
            )
        except (KeyError, TypeError, AttributeError) as problem:
            raise InvalidInput(f"Expected an evaluation in JSON, but {problem!r}.") from problem


def evaluate(
    detector: Detector,
    utterances: Iterable[Utterance],
    labels: LabelMap,
    *,
    confidence: float = CONFIDENCE,
    most_examples: int = 0,
) -> Evaluation:
    """Compare what a detector finds with the annotations.

    >>> from sottovoce.deid.detect import Gazetteer
    >>> calls = [Utterance(tokens=("call", name), slots=("O", "B-who")) for name in ("ann", "bo")]
    >>> found = evaluate(Gazetteer({"PER": ["ann"]}), calls, LabelMap({"who": "PER"}))
    >>> found.recall, found.types["PER"].missed_words, found.precision
    (0.5, 1, 1.0)
    """
    counts: dict[str, Counter[str]] = {}
    examples: list[tuple[str, str]] = []
    public = needless = total = 0
    for utterance, found in _answers(detector, utterances):
        total += 1
        marks = marks_of(utterance.text, found)
        gold = labels.typed(spans_of(utterance))
        private = marks_of(utterance.text, gold)
        public += sum(not kind for kind in private)
        needless += sum(bool(mark) and not kind for mark, kind in zip(marks, private, strict=True))
        words = _visible_words(utterance.text)
        for span in gold:
            inside = [
                mark
                for word, mark in zip(words, marks, strict=True)
                if word.start < span.end and word.end > span.start
            ]
            if not inside:
                continue
            count = counts.setdefault(span.type, Counter())
            missed = inside.count("")
            count["words"] += len(inside)
            count["missed_words"] += missed
            count["mistyped_words"] += sum(mark not in ("", span.type) for mark in inside)
            count["values"] += 1
            count["missed_values"] += missed > 0
            if missed and len(examples) < most_examples:
                examples.append((span.type, utterance.text))
    if not counts:
        raise InvalidInput(f"Expected private values to look for, got none in {total} utterances.")
    return Evaluation(
        detector=detector.name,
        fingerprint=fingerprint(detector),
        confidence=confidence,
        utterances=total,
        public_words=public,
        needless_words=needless,
        types={
            kind: TypeRecall(
                words=count["words"],
                missed_words=count["missed_words"],
                mistyped_words=count["mistyped_words"],
                values=count["values"],
                missed_values=count["missed_values"],
                confidence=confidence,
            )
            for kind, count in counts.items()
        },
        examples=tuple(examples),
    )


def _answers(
    detector: Detector, utterances: Iterable[Utterance]
) -> Iterator[tuple[Utterance, list[Span]]]:
    source = iter(utterances)
    while batch := list(islice(source, _BATCH)):
        yield from zip(batch, detector.find(batch), strict=True)


def marks_of(text: str, spans: Iterable[Span]) -> list[str]:
    """The type of every word; empty for a public one."""
    marks = []
    ordered = sorted(spans)
    for word in _visible_words(text):
        covering = (s.type for s in ordered if s.start < word.end and s.end > word.start)
        marks.append(next(covering, ""))
    return marks


def _visible_words(text: str) -> list[Word]:
    """The words that say something: no punctuation."""
    return [word for word in words_of(text) if word.lower[0].isalnum() or word.lower[0] == "_"]
