"""A plug-in for tests: a detector that a text can make run for ever, or eat memory."""

from collections.abc import Sequence
from typing import Any

from sottovoce.corpora import Span, Utterance
from sottovoce.deid import DETECTORS


@DETECTORS.register("greedy")
class Greedy:
    name, types = "greedy", ("ID",)

    def __init__(self, labels: object = None) -> None:
        self._kept: list[bytes] = []

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        for utterance in batch:
            while utterance.text == "for ever":
                pass
            while utterance.text == "memory":
                self._kept.append(bytes(1 << 22))
        return [[] for _ in batch]

    def to_json(self) -> dict[str, Any]:
        return {"detector": self.name}
