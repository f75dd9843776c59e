"""Whether marks depend on the private values beside them.

A statement counts every private value by itself; it assumes that swapping one value for another of
its type changes no other mark. Models read context, so that is not quite true. Here it is measured:
a value is swapped for one of another utterance, and the marks that do not touch it are compared.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from sottovoce.corpora import Span, Utterance, spans_of
from sottovoce.deid.detect.detector import Detector, utterance_of
from sottovoce.deid.detect.labels import LabelMap

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Stability:
    """How many swaps were made, and how many changed another mark.

    >>> measured = Stability(100, 3)
    >>> round(measured.lower, 3), round(measured.upper, 3)
    (0.006, 0.085)
    """

    swaps: int
    changed: int
    confidence: float = CONFIDENCE

    @property
    def share(self) -> float:
        return self.changed / self.swaps if self.swaps else 0.0

    @property
    def lower(self) -> float:
        """The interval of Clopper and Pearson, two-sided."""
        tail = (1 - self.confidence) / 2
        rest = self.swaps - self.changed + 1
        return float(stats.beta.ppf(tail, self.changed, rest)) if self.changed else 0.0

    @property
    def upper(self) -> float:
        tail = (1 - self.confidence) / 2
        rest = self.swaps - self.changed
        return float(stats.beta.ppf(1 - tail, self.changed + 1, rest)) if rest else 1.0

    def __str__(self) -> str:
        return (
            f"{self.share:.1%} of {self.swaps:,} swaps of a value changed another mark "
            f"({self.lower:.1%} to {self.upper:.1%})"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "swaps": self.swaps,
            "changed": self.changed,
            "confidence": self.confidence,
            "share": self.share,
            "lower": self.lower,
            "upper": self.upper,
        }

    @classmethod
    def from_json(cls, data: Any) -> "Stability":
        """Read what `to_json` wrote; the interval is computed anew."""
        return cls(int(data["swaps"]), int(data["changed"]), float(data["confidence"]))


def stability(
    detector: Detector,
    utterances: Iterable[Utterance],
    labels: LabelMap,
    *,
    most: int = 1000,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Stability:
    """Swap one annotated value of an utterance at a time, `most` times at most.

    >>> from sottovoce.deid.detect import Gazetteer
    >>> calls = [Utterance(tokens=("call", name), slots=("O", "B-who")) for name in ("ann", "bo")]
    >>> stability(Gazetteer({"PER": ["ann"]}), calls, LabelMap({"who": "PER"})).changed
    0
    """
    draws = random.Random(seed)
    private = [
        (utterance.text, spans)
        for utterance in utterances
        if (spans := labels.typed(spans_of(utterance)))
    ]
    draws.shuffle(private)
    values: dict[str, list[str]] = {}
    for text, spans in private:
        for start, end, kind in spans:
            values.setdefault(kind, []).append(text[start:end])
    before: list[tuple[str, Span]] = []
    after: list[tuple[str, Span]] = []
    for text, spans in private:
        if len(before) == most:
            break
        start, end, kind = draws.choice(spans)
        others = sorted({other for other in values[kind] if other != text[start:end]})
        if others:
            made = draws.choice(others)
            before.append((text, Span(start, end, kind)))
            after.append((text[:start] + made + text[end:], Span(start, start + len(made), kind)))
    marks = [_other_marks(detector, swapped) for swapped in (before, after)]
    changed = sum(one != other for one, other in zip(*marks, strict=True))
    return Stability(len(before), changed, confidence)


def _other_marks(
    detector: Detector, swapped: Sequence[tuple[str, Span]]
) -> list[tuple[list[Span], list[Span]]]:
    """The marks before a value and behind it, by their distance from its edges."""
    found = detector.find([utterance_of(text) for text, _ in swapped])
    return [
        (
            [span for span in spans if span.end <= value.start],
            [
                Span(span.start - value.end, span.end - value.end, span.type)
                for span in spans
                if span.start >= value.end
            ],
        )
        for (_, value), spans in zip(swapped, found, strict=True)
    ]
