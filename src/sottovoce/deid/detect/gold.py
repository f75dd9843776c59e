"""The annotations of the corpus itself as a detector: nothing is missed, if they are right."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sottovoce.corpora import Span, Utterance, spans_of
from sottovoce.deid.detect.labels import LabelMap
from sottovoce.deid.detect.mappings import mapping


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
