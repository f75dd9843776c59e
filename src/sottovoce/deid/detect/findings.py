"""Why a value was marked: every detector's finding, its score and its reason."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.corpora import Span
from sottovoce.deid.detect.detector import Detector, utterance_of


class Finding(NamedTuple):
    """`text[start:end]` by one rule or model. The score is its probability, 1 for a rule."""

    start: int
    end: int
    type: str
    score: float
    reason: str


class Decision(NamedTuple):
    """A marked value and the findings behind it; `kept` says that an allow list left it in."""

    span: Span
    value: str
    findings: tuple[Finding, ...]
    kept: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "start": self.span.start,
            "end": self.span.end,
            "type": self.span.type,
            "value": self.value,
            "kept": self.kept,
            "findings": [found._asdict() for found in self.findings],
        }


def explain(detector: Detector, text: str) -> list[Decision]:
    """Every value that a detector marks in a text, and why.

    >>> from sottovoce.deid.detect.registry import detector
    >>> for decision in explain(detector("patterns"), "at a@b.example, ring 555-0123"):
    ...     print(decision.span.type, repr(decision.value), *[f.reason for f in decision.findings])
    EMAIL 'a@b.example' patterns: e-mail
    PHONE '555-0123' patterns: telephone
    """
    findings: list[Finding] = []
    for part in getattr(detector, "detectors", (detector,)):
        findings += findings_of(part, text)
    marked = list(detector.find([utterance_of(text)])[0])
    decisions = [_decision(text, span, findings) for span in marked]
    allowed = getattr(detector, "is_allowed", None)
    if allowed is not None:
        rest = [f for f in findings if not any(_touch(f, span) for span in marked)]
        kept = sorted({(f.start, f.end, f.type) for f in rest if allowed(text[f.start : f.end])})
        decisions += [_decision(text, Span(*place), rest)._replace(kept=True) for place in kept]
    return sorted(decisions)


def findings_of(detector: Detector, text: str) -> Sequence[Finding]:
    """What one detector finds; by its own account if it gives one."""
    account = getattr(detector, "explain", None)
    if account is not None:
        own: Sequence[Finding] = account(text)
        return own
    (spans,) = detector.find([utterance_of(text)])
    return [Finding(*span, 1.0, detector.name) for span in spans]


Row = tuple[int, int, NDArray[np.floating]]
"""A word's place and the probabilities of its labels."""


def explained(name: str, span: Span, rows: Sequence[Row], labels: Sequence[str]) -> Finding:
    """The finding of a model: how probable it is that the words of a span are private."""
    inside = [share for start, end, share in rows if start < span.end and end > span.start]
    outside = labels.index("O") if "O" in labels else -1
    private = [1.0 if outside < 0 else 1 - float(share[outside]) for share in inside]
    told: dict[str, float] = {}
    for share in inside:
        for label, value in zip(labels, share.tolist(), strict=True):
            if label != "O":
                told[label[2:]] = told.get(label[2:], 0.0) + value / len(inside)
    likely = sorted(told.items(), key=lambda each: -each[1])[:2]
    kinds = ", ".join(f"{kind} {value:.2f}" for kind, value in likely)
    return Finding(*span, min(private, default=0.0), f"{name}: {kinds}")


def _decision(text: str, span: Span, findings: Sequence[Finding]) -> Decision:
    behind = tuple(found for found in findings if _touch(found, span))
    return Decision(span, text[span.start : span.end], behind)


def _touch(found: Finding, span: Span) -> bool:
    return found.start < span.end and found.end > span.start
