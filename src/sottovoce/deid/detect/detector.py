"""What a detector is: utterances in, typed character spans out.

A detector sees a batch at a time, because most of the cost of a small text is the cost of a call.
It has to look at all of the text whatever its length, and to raise rather than to skip: text that
nobody looked at is text that was let through.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sottovoce.corpora import Span, Utterance, spans_of
from sottovoce.deid.detect.labels import LabelMap, mapping


class Detector(Protocol):
    """Finds private values. Spans may overlap; `combination.merged` settles that."""

    @property
    def name(self) -> str:
        """How reports call it."""

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        """The spans of every utterance, by offsets into its `text`."""

    def to_json(self) -> dict[str, Any]:
        """What it is made of. Lists and models may be private, and so are their hashes."""


def fingerprint(detector: Detector) -> str:
    """Tells detectors apart by what they are made of, whatever they are called.

    Keep it with the private files: trying out lists would tell what a short list holds.
    """
    parts = [part.to_json() for part in getattr(detector, "detectors", (detector,))]
    if allowed := getattr(detector, "allowed", ()):
        parts.append({"allowed": sorted(allowed)})
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def types_of(detector: Detector) -> frozenset[str] | None:
    """The types that a detector may find; None if it does not say."""
    found = getattr(detector, "types", None)
    return None if found is None else frozenset(found)


def utterance_of(text: str, user: str = "") -> Utterance:
    """Plain text as an utterance without labels.

    >>> utterance_of("call  mum").tokens
    ('call', 'mum')
    """
    tokens = tuple(text.split())
    return Utterance(tokens=tokens, slots=("O",) * len(tokens), text=text, user=user)


@dataclass(frozen=True)
class Gold:
    """Slots that the mapping calls private.

    >>> call = Utterance(tokens=("call", "mum"), slots=("O", "B-contact"))
    >>> Gold(mapping("communication")).find([call])
    [[Span(start=5, end=8, type='PER')]]
    """

    labels: LabelMap = field(default_factory=lambda: mapping("standard"))
    name: str = "gold"

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.labels.private.values()))

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        outside = {"O"}
        return [
            [] if outside.issuperset(utterance.slots) else self.labels.typed(spans_of(utterance))
            for utterance in batch
        ]

    def to_json(self) -> dict[str, Any]:
        return {"detector": self.name, "labels": self.labels.to_json()}
