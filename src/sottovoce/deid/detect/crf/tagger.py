"""A conditional random field (CRFsuite) that labels words with types: the trainable detector.

A tagger is one file: a zip archive of the model and of what it was trained and tested on. It reads
every text whole, whatever its length, with the same words and features as in training.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce.corpora import OUTSIDE, Span, Utterance
from sottovoce.deid.detect.crf.decoding import (
    Emissions,
    Places,
    Steps,
    Weights,
    best_labels,
    chances,
    read_weights,
)
from sottovoce.deid.detect.crf.features import Basic, Reading
from sottovoce.deid.detect.crf.general import General, lexicon_from, without_small
from sottovoce.deid.detect.findings import Finding, explained
from sottovoce.deid.detect.thresholds import Thresholds, checked, decided
from sottovoce.deid.detect.words import WORD, Word, plain_words
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output

_MODEL, _ABOUT, _LEXICON = "model.crfsuite", "tagger.json", "lexicon.tsv"
_FORMAT = 1
_SHIPPED = {"tagger": "default.tagger", "general": "general.tagger"}
_MOST_LETTERS = 49_152  # decoded at once; more of them leave the cache of the processor


class Tagger:
    """A trained tagger, ready to find spans.

    With `caution` a word is public only if its probability of being so is at least that: more is
    found, and more is found needlessly. A tagger may come with a caution of its own, chosen on
    held-out text (see `caution`).

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
        caution: float | None = None,
        thresholds: Thresholds | None = None,
        lexicon: bytes = b"",
    ) -> None:
        self._name = name
        self.about = dict(about)
        chosen = self.own_caution if caution is None else caution
        self.caution = _validate.probability("caution", chosen)
        self.thresholds = checked(thresholds or {}, self.about["types"])
        self._model = model
        self._lexicon = lexicon

    @classmethod
    def shipped(cls, name: str = "tagger") -> "Tagger":
        """A tagger inside this package: `tagger` knows the built-in corpora, `general` English."""
        file = _SHIPPED[_validate.one_of("shipped tagger", name, tuple(_SHIPPED))]
        content = resources.files("sottovoce.deid.detect.crf").joinpath(file).read_bytes()
        return cls._from_bytes(content, file, name)

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
                lexicon = archive.read(_LEXICON) if "lexicon_sha256" in about else b""
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
        if lexicon and hashlib.sha256(lexicon).hexdigest() != about["lexicon_sha256"]:
            raise InvalidInput(f"{where}: Expected the lexicon that was saved; it was altered.")
        return cls(model, about, name, lexicon=lexicon)

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all; equal taggers give equal bytes."""
        about = self.about | {
            "format": _FORMAT,
            "sha256": hashlib.sha256(self._model).hexdigest(),
        }
        files = {_MODEL: self._model}
        if self._lexicon:
            about["lexicon_sha256"] = hashlib.sha256(self._lexicon).hexdigest()
            files[_LEXICON] = self._lexicon
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, content in (
                (_ABOUT, json.dumps(about, indent=1, sort_keys=True).encode()),
                *files.items(),
            ):
                # A fixed date, so that the bytes depend on the content alone.
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, content)
        with output(path) as stream:
            stream.write(packed.getvalue())

    @property
    def name(self) -> str:
        """Another caution belongs to it: an evaluation with its own one says nothing of that."""
        own = self.caution == self.own_caution
        name = self._name if own else f"{self._name} at caution {self.caution:g}"
        return name + "".join(f" {kind}={least:g}" for kind, least in self.thresholds.items())

    @property
    def own_caution(self) -> float:
        """The caution that it came with."""
        return float(self.about.get("caution", 0.0))

    def with_caution(self, caution: float) -> "Tagger":
        """The same tagger with another caution."""
        return self._other(caution, self.thresholds)

    def with_thresholds(self, thresholds: Thresholds) -> "Tagger":
        """The same tagger with a threshold for some types (see `thresholds.decided`)."""
        return self._other(self.caution, thresholds)

    def _other(self, caution: float, thresholds: Thresholds) -> "Tagger":
        return Tagger(
            self._model,
            self.about,
            self._name,
            caution=caution,
            thresholds=thresholds,
            lexicon=self._lexicon,
        )

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(self.about["types"])

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        found: list[list[Span]] = []
        for texts in _portions([utterance.text for utterance in batch]):
            found += self._spans(texts)
        return found

    def _spans(self, texts: Sequence[str]) -> list[list[Span]]:
        found: list[list[Span]] = [[] for _ in texts]
        sentences, places = _cut(texts)
        if not any(sentences):
            return found
        reading = self._reading
        labels = self._labels(list(map(reading.marked, texts, sentences)))
        sizes = np.array([len(sentence) for sentence in sentences])
        beyond = np.cumsum(sizes)
        edges = (beyond - sizes)[sizes > 0]
        firsts, lasts = runs(self._kinds[labels], self._begins[labels], edges)
        owners = np.searchsorted(beyond, firsts, side="right")
        starts, ends = _borders(sentences, sizes, places)
        types = [label[2:] for label in self._weights.labels]
        spans = zip(
            starts[firsts].tolist(),
            ends[lasts].tolist(),
            [types[label] for label in labels[firsts].tolist()],
            strict=True,
        )
        for owner, span in zip(owners.tolist(), map(Span._make, spans), strict=True):
            found[owner].append(span)
        for owner in places:
            found[owner] = trimmed(texts[owner], found[owner])
        if self._lexicon:
            for owner, text in enumerate(texts):
                if found[owner]:
                    whole = (without_ending(text, span) for span in found[owner])
                    found[owner] = [kept for span in whole if (kept := without_small(text, span))]
        return found

    def _labels(self, sentences: Sequence[Sequence[str]]) -> Places:
        """The number of the label of every word, sentence after sentence."""
        steps = Steps.of([len(sentence) for sentence in sentences])
        emissions = self._emissions.of(sentences, steps.order)
        transitions = self._weights.transitions
        told = best_labels(emissions, transitions, steps)
        if self.caution or self.thresholds:
            shares = chances(emissions, transitions, steps)
            told = decided(told, shares, self._weights.labels, self.caution, self.thresholds)
        labels = np.empty_like(told)
        labels[steps.order] = told
        return labels

    def explain(self, text: str) -> list[Finding]:
        """Every span with the probability of its least probable word being private."""
        (words,), places = _cut([text])
        if not words:
            return []
        marked = [self._reading.marked(text, words)]
        steps = Steps.of([len(words)])
        emissions = self._emissions.of(marked, steps.order)
        shares = np.empty_like(emissions)
        shares[steps.order] = chances(emissions, self._weights.transitions, steps)
        sizes = np.array([len(words)])
        starts, ends = _borders([words], sizes, places)
        names = self._weights.labels
        rows = list(zip(starts.tolist(), ends.tolist(), shares, strict=True))
        return [explained(self.name, span, rows, names) for span in self._spans([text])[0]]

    @cached_property
    def _weights(self) -> Weights:
        return read_weights(self._model)

    @cached_property
    def _emissions(self) -> Emissions:
        return Emissions(self._weights, self._reading.lists_of)

    @cached_property
    def _reading(self) -> Reading:
        if not self._lexicon:
            return Basic()
        return General(lexicon_from(self._lexicon.decode()))

    @cached_property
    def _kinds(self) -> Places:
        """The number of the type of every label; -1 where there is none."""
        types = sorted({label[2:] for label in self._weights.labels})
        return np.array(
            [-1 if label == OUTSIDE else types.index(label[2:]) for label in self._weights.labels]
        )

    @cached_property
    def _begins(self) -> NDArray[np.bool_]:
        """Whether a label begins a value."""
        return np.array([label.startswith("B-") for label in self._weights.labels])

    def to_json(self) -> dict[str, Any]:
        return {
            "detector": self.name,
            "types": list(self.types),
            "caution": self.caution,
            **({"thresholds": self.thresholds} if self.thresholds else {}),
            "sha256": hashlib.sha256(self._model + self._lexicon).hexdigest(),
        }


def runs(kinds: Places, begins: NDArray[np.bool_], edges: Places) -> tuple[Places, Places]:
    """The first and the last word of every run of private words of one type.

    A run ends before a word that begins another one and at the `edges`, where sentences begin.

    >>> kinds, begins = np.array([-1, 0, 0, 0, 1]), np.array([False, True, False, True, False])
    >>> [found.tolist() for found in runs(kinds, begins, np.array([], dtype=int))]
    [[1, 3, 4], [2, 3, 4]]
    """
    private = kinds >= 0
    goes_on = private & ~begins
    goes_on[1:] &= kinds[1:] == kinds[:-1]
    goes_on[0] = False
    goes_on[edges] = False
    stops = private.copy()
    stops[:-1] &= ~goes_on[1:]
    return np.flatnonzero(private & ~goes_on), np.flatnonzero(stops)


def _cut(texts: Sequence[str]) -> tuple[list[list[str]], dict[int, list[tuple[int, int]]]]:
    """The words of texts, and their places in those where not only blanks part them."""
    sentences: list[list[str]] = []
    places: dict[int, list[tuple[int, int]]] = {}
    for number, text in enumerate(texts):
        words = plain_words(text)
        if words is None:
            places[number] = [found.span() for found in WORD.finditer(text)]
            words = [text[start:end] for start, end in places[number]]
        sentences.append(words)
    return sentences, places


def _borders(
    sentences: Sequence[Sequence[str]],
    sizes: Places,
    places: Mapping[int, Sequence[tuple[int, int]]],
) -> tuple[Places, Places]:
    """Where every word begins and ends: behind one blank, unless its place is known."""
    lengths = np.fromiter(map(len, chain.from_iterable(sentences)), np.intp)
    ends = np.cumsum(lengths + 1) - 1
    starts = ends - lengths
    firsts = np.cumsum(sizes) - sizes
    before = starts[np.repeat(firsts, sizes)]
    starts, ends = starts - before, ends - before
    for number, own in places.items():
        if own:
            words = slice(firsts[number], firsts[number] + sizes[number])
            starts[words], ends[words] = np.transpose(own)
    return starts, ends


def trimmed(text: str, spans: Sequence[Span]) -> list[Span]:
    """Without the punctuation at their edges, which is nobody's, and those of nothing else."""
    found = []
    for start, end, kind in spans:
        while start < end and not text[start].isalnum():
            start += 1
        while start < end and not text[end - 1].isalnum():
            end -= 1
        if start < end:
            found.append(Span(start, end, kind))
    return found


def without_ending(text: str, span: Span) -> Span:
    """Without a possessive ending, which is grammar and stays."""
    start, end, kind = span
    if end - start > 2 and text[end - 2] in "'’" and text[end - 1] in "sS":
        return Span(start, end - 2, kind)
    return span


def _portions(texts: Sequence[str]) -> Iterator[list[str]]:
    """Texts that are decoded together: not too many letters at a time, whatever the batch."""
    portion: list[str] = []
    letters = 0
    for text in texts:
        if portion and letters + len(text) > _MOST_LETTERS:
            yield portion
            portion, letters = [], 0
        portion.append(text)
        letters += len(text)
    if portion:
        yield portion


def labels_for(words: Sequence[Word], spans: Sequence[Span]) -> list[str]:
    """The label of every word; a word that a span only touches belongs to it.

    >>> from sottovoce.deid.detect.words import words_of
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
