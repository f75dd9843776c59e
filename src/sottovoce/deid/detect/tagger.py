"""A conditional random field (CRFsuite) that labels words with types: the trainable detector.

A tagger is one file: a zip archive of the model and of what it was trained and tested on. It reads
every text whole, whatever its length, with the same words and features as in training.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from importlib import resources
from itertools import accumulate
from pathlib import Path
from typing import Any

from sottovoce import _validate
from sottovoce.corpora import Span, Utterance
from sottovoce.corpora.atomic import output
from sottovoce.deid.detect.features import Features
from sottovoce.deid.words import WORD, Word, plain_words
from sottovoce.errors import InvalidInput

_MODEL, _ABOUT = "model.crfsuite", "tagger.json"
_FORMAT = 1
_SHIPPED = "default.tagger"
_OUTSIDE = frozenset({"O"})


class Tagger:
    """A trained tagger, ready to find spans.

    With `caution` a word is public only if its probability of being so is at least that: more is
    found, more is found needlessly, and it takes about twice the time.

    >>> tagger = Tagger.shipped()
    >>> "PER" in tagger.types
    True
    """

    def __init__(
        self,
        model: bytes,
        about: Mapping[str, Any],
        name: str = "tagger",
        *,
        caution: float = 0.0,
    ) -> None:
        self._name = name
        self.caution = _validate.probability("caution", caution)
        self.about = dict(about)
        self._model = model
        self._features = Features()

    @classmethod
    def shipped(cls) -> "Tagger":
        """The tagger inside this package, trained on the built-in corpora."""
        content = resources.files("sottovoce.deid.detect").joinpath(_SHIPPED).read_bytes()
        return cls._from_bytes(content, _SHIPPED, "tagger")

    @classmethod
    def load(cls, path: str | Path) -> "Tagger":
        """Read a tagger from a file; a damaged one is refused."""
        if not Path(path).is_file():
            raise InvalidInput(f"Expected the file of a tagger at {path}, found none.")
        return cls._from_bytes(Path(path).read_bytes(), str(path), f"tagger {Path(path).name}")

    @classmethod
    def _from_bytes(cls, content: bytes, where: str, name: str) -> "Tagger":
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                model, about = archive.read(_MODEL), json.loads(archive.read(_ABOUT))
        except (zipfile.BadZipFile, KeyError, ValueError) as problem:
            raise InvalidInput(
                f"{where}: Expected a tagger made by `sottovoce deid train`, got {problem}."
            ) from problem
        if about.get("format") != _FORMAT:
            raise InvalidInput(
                f"{where}: Expected a tagger of format {_FORMAT}, got {about.get('format')!r}; "
                "train it again."
            )
        if hashlib.sha256(model).hexdigest() != about.get("sha256"):
            raise InvalidInput(f"{where}: Expected the model that was saved; it was altered.")
        return cls(model, about, name)

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all; equal taggers give equal bytes."""
        about = self.about | {
            "format": _FORMAT,
            "sha256": hashlib.sha256(self._model).hexdigest(),
        }
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, content in (
                (_ABOUT, json.dumps(about, indent=1, sort_keys=True).encode()),
                (_MODEL, self._model),
            ):
                # A fixed date, so that the bytes depend on the content alone.
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, content)
        with output(path) as stream:
            stream.write(packed.getvalue())

    @property
    def name(self) -> str:
        """The caution belongs to it: an evaluation with another one says nothing."""
        return f"{self._name} at caution {self.caution:g}" if self.caution else self._name

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(self.about["types"])

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        return [self._spans(utterance.text) for utterance in batch]

    def _spans(self, text: str) -> list[Span]:
        originals = plain_words(text)
        places: list[tuple[int, int]] | None = None
        if originals is None:
            places = [found.span() for found in WORD.finditer(text)]
            originals = [text[start:end] for start, end in places]
        if not originals:
            return []
        features = self._features.of(originals)
        labels: list[str] = self._crf.tag(features)
        if self.caution:
            labels = self._cautious(labels, features)
        if _OUTSIDE.issuperset(labels):
            return []
        if places is None:
            ends = accumulate((len(word) + 1 for word in originals), initial=0)
            places = [
                (start, start + len(word)) for start, word in zip(ends, originals, strict=False)
            ]
        found = (_trimmed(text, span) for span in spans_from(places, labels))
        return [span for span in found if span.start < span.end]

    def _cautious(self, labels: list[str], features: list[list[str]]) -> list[str]:
        """The same labels, but a word that may well be private is taken for private."""
        crf = self._crf
        crf.set(features)
        private = [label for label in crf.labels() if label != "O"]
        changed = list(labels)
        for place, label in enumerate(labels):
            if label == "O" and crf.marginal("O", place) < self.caution:
                changed[place] = max(private, key=partial(_chance, crf, place))
        return changed

    @cached_property
    def _crf(self) -> Any:
        import pycrfsuite  # type: ignore[import-untyped]

        crf = pycrfsuite.Tagger()
        crf.open_inmemory(self._model)
        return crf

    def to_json(self) -> dict[str, Any]:
        return {
            "detector": self.name,
            "types": list(self.types),
            "caution": self.caution,
            "sha256": hashlib.sha256(self._model).hexdigest(),
        }


def spans_from(places: Iterable[tuple[int, int]], labels: Iterable[str]) -> list[Span]:
    """The spans that labelled words make; an I- that continues nothing begins a span.

    >>> spans_from([(0, 4), (5, 9), (10, 13)], ["O", "B-PER", "I-PER"])
    [Span(start=5, end=13, type='PER')]
    """
    spans: list[Span] = []
    inside = ""
    for (start, end), label in zip(places, labels, strict=True):
        if label == "O":
            inside = ""
            continue
        kind = label[2:]
        if label[0] == "I" and inside == kind:
            spans[-1] = Span(spans[-1].start, end, kind)
        else:
            spans.append(Span(start, end, kind))
            inside = kind
    return spans


def _chance(crf: Any, place: int, label: str) -> float:
    chance: float = crf.marginal(label, place)
    return chance


def _trimmed(text: str, span: Span) -> Span:
    """Without the punctuation at its edges, which is nobody's; empty if there is nothing else."""
    start, end, kind = span
    while start < end and not text[start].isalnum():
        start += 1
    while start < end and not text[end - 1].isalnum():
        end -= 1
    return Span(start, end, kind)


def labels_for(words: Sequence[Word], spans: Sequence[Span]) -> list[str]:
    """The label of every word; a word that a span only touches belongs to it.

    >>> from sottovoce.deid.words import words_of
    >>> labels_for(words_of("call anna lee"), [Span(5, 13, "PER")])
    ['O', 'B-PER', 'I-PER']
    """
    labels = ["O"] * len(words)
    position = 0
    for start, end, kind in sorted(spans):
        prefix = "B-"
        while position < len(words) and words[position].end <= start:
            position += 1
        while position < len(words) and words[position].start < end:
            labels[position] = prefix + kind
            prefix = "I-"
            position += 1
    return labels
