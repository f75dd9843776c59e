"""The adapters against stand-ins of the same shape as the real objects."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from sottovoce.corpora import Span
from sottovoce.deid.detect import Combination
from sottovoce.deid.detect.adapters import PresidioDetector, SpacyDetector, TransformersDetector
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.errors import InvalidInput

BATCH = [utterance_of("call Anna"), utterance_of("hang up")]
EXPECTED = [[Span(5, 9, "PER")], []]


class Nlp:
    def pipe(self, texts: Iterable[str]) -> Iterable[Any]:
        for text in texts:
            place = text.find("Anna")
            entity = SimpleNamespace(start_char=place, end_char=place + 4, label_="PERSON")
            yield SimpleNamespace(ents=[entity] if place >= 0 else [])


class Analyzer:
    def analyze(self, *, text: str, language: str) -> list[Any]:
        assert language == "en"
        place = text.find("Anna")
        found = SimpleNamespace(start=place, end=place + 4, entity_type="PERSON")
        return [found] if place >= 0 else []


class Pipeline:
    def __init__(self, most: int, label: str = "PER") -> None:
        self.label = label
        self.tokenizer = Tokenizer(most)

    def __call__(self, text: str) -> list[dict[str, Any]]:
        place = text.find("Anna")
        found = {"start": place, "end": place + 4, "entity_group": self.label}
        return [found] if place >= 0 else []


class Tokenizer:
    def __init__(self, most: int) -> None:
        self.model_max_length = most

    def __call__(self, text: str) -> dict[str, list[str]]:
        return {"input_ids": text.split()}


@pytest.mark.parametrize(
    "adapter",
    [SpacyDetector(Nlp()), PresidioDetector(Analyzer()), TransformersDetector(Pipeline(10))],
)
def test_spans_are_typed(adapter: Any) -> None:
    assert Combination([adapter]).find(BATCH) == EXPECTED
    assert adapter.to_json()["detector"] == adapter.name


def test_texts_that_would_be_cut_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at most 1 pieces"):
        TransformersDetector(Pipeline(1)).find(BATCH)


def test_unknown_labels_are_refused() -> None:
    with pytest.raises(InvalidInput, match="label of the mapping"):
        TransformersDetector(Pipeline(10, "WIZARD")).find(BATCH)
