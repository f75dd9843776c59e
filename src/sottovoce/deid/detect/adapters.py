"""Other people's detectors: spaCy pipelines, Presidio analyzers, HuggingFace token classifiers.

Each takes an object that the caller has made, so nothing is downloaded and no extra is needed to
import this module. Their labels go through a mapping; an unknown one is refused.
"""

from collections.abc import Sequence
from typing import Any

from sottovoce.corpora import Span, Utterance
from sottovoce.deid.detect.labels import LabelMap, mapping
from sottovoce.errors import InvalidInput


class Adapter:
    """What the adapters share: a name and a mapping of labels."""

    def __init__(self, name: str, labels: LabelMap | None) -> None:
        self.name = name
        self.labels = labels or mapping("standard")

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.labels.private.values()))

    def to_json(self) -> dict[str, Any]:
        return {"detector": self.name, "labels": self.labels.to_json()}


class SpacyDetector(Adapter):
    """The entities of a spaCy pipeline (`nlp.pipe`)."""

    def __init__(self, nlp: Any, labels: LabelMap | None = None) -> None:
        super().__init__("spacy", labels)
        self._nlp = nlp

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        documents = self._nlp.pipe(utterance.text for utterance in batch)
        return [
            self.labels.typed(
                Span(entity.start_char, entity.end_char, entity.label_) for entity in document.ents
            )
            for document in documents
        ]


class PresidioDetector(Adapter):
    """The results of a Presidio `AnalyzerEngine`."""

    def __init__(
        self, analyzer: Any, labels: LabelMap | None = None, *, language: str = "en"
    ) -> None:
        super().__init__("presidio", labels)
        self._analyzer, self._language = analyzer, language

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        return [
            self.labels.typed(
                Span(found.start, found.end, found.entity_type)
                for found in self._analyzer.analyze(text=utterance.text, language=self._language)
            )
            for utterance in batch
        ]


class TransformersDetector(Adapter):
    """A HuggingFace pipeline "token-classification" with an aggregation strategy.

    A text longer than the model reads would be cut without a word, so it is refused.
    """

    def __init__(self, pipeline: Any, labels: LabelMap | None = None) -> None:
        super().__init__("transformers", labels)
        self._pipeline = pipeline

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        return [self._spans(utterance.text) for utterance in batch]

    def _spans(self, text: str) -> list[Span]:
        tokenizer = self._pipeline.tokenizer
        size = len(tokenizer(text)["input_ids"])
        if size > tokenizer.model_max_length:
            raise InvalidInput(
                f"Expected at most {tokenizer.model_max_length} pieces, as the model reads, got "
                f"{size}; cut the text into utterances."
            )
        return self.labels.typed(
            Span(found["start"], found["end"], found["entity_group"])
            for found in self._pipeline(text)
        )
