"""From text to the word pieces that MiniLM reads, and back to words.

MiniLM knows no capitals, so every piece also carries the case of its word. A text without any
capitals, or of nothing else, says nothing by its case. Long texts are read in overlapping windows:
nothing is left out, whatever the length.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from sottovoce.deid.detect.crf.general import is_headline
from sottovoce.deid.detect.words import WORD
from sottovoce.errors import InvalidInput

CASES = 7
_NONE, _LOWER, _TITLE, _UPPER, _MIXED, _CASELESS, _SCRIPT = range(CASES)
CORE, CONTEXT = 160, 32
"""Pieces of a window that are labelled by it, and those read on either side of them."""
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_LAST_LATIN = "\u024f"


@dataclass(frozen=True, slots=True)
class Read:
    """A text as pieces. `words` are places in the text; `firsts` the first piece of each word."""

    ids: list[int]
    cases: list[int]
    words: list[tuple[int, int]]
    firsts: list[int]
    """-1 for a word without any piece: the tokeniser drops invisible characters."""


@dataclass(frozen=True, slots=True)
class Window:
    """Pieces `start` to `end` of a text, of which those of the core are labelled."""

    text: int
    start: int
    end: int
    core: tuple[int, int]


class Pieces:
    """The tokeniser of a folder."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.start, self.end = self._special("[CLS]"), self._special("[SEP]")

    def _special(self, name: str) -> int:
        found = self._tokenizer.token_to_id(name)
        if found is None:
            raise InvalidInput(f"Expected the tokeniser of MiniLM, got one without {name}.")
        return int(found)

    def read(self, texts: Sequence[str]) -> list[Read]:
        """Every text as pieces; half of a surrogate pair is read as an unknown character."""
        clean = [text if text.isascii() else _SURROGATES.sub("\ufffd", text) for text in texts]
        found = self._tokenizer.encode_batch(clean, add_special_tokens=False)
        return [
            _read(text, each.ids, each.offsets) for text, each in zip(clean, found, strict=True)
        ]


def _read(text: str, ids: list[int], offsets: Sequence[tuple[int, int]]) -> Read:
    words = [found.span() for found in WORD.finditer(text)]
    forms = [text[start:end] for start, end in words]
    caseless = text.islower() or text.isupper() or is_headline(forms)
    firsts = [-1] * len(words)
    cases = []
    position = 0
    for number, (start, _) in enumerate(offsets):
        while position + 1 < len(words) and words[position][1] <= start:
            position += 1
        if not words:
            cases.append(_NONE)
            continue
        if firsts[position] < 0 and start < words[position][1]:
            firsts[position] = number
        cases.append(_case(forms[position], caseless))
    return Read(ids, cases, words, firsts)


def _case(word: str, caseless: bool) -> int:
    first = word[0]
    if not any(map(str.isalpha, word)):
        return _NONE
    if first > _LAST_LATIN and not first.isupper() and not first.islower():
        return _SCRIPT
    if caseless:
        return _CASELESS
    if word.islower():
        return _LOWER
    if word.isupper() and len(word) > 1:
        return _UPPER
    return _TITLE if (first.isupper() and word[1:].islower()) or len(word) == 1 else _MIXED


def windows(reads: Sequence[Read]) -> Iterator[Window]:
    """The windows of texts.

    >>> short, long = (Read([0] * size, [0] * size, [], []) for size in (5, 300))
    >>> [(window.start, window.end, window.core) for window in windows([short, long])]
    [(0, 5, (0, 5)), (0, 192, (0, 160)), (128, 300, (160, 300))]
    """
    for number, read in enumerate(reads):
        size = len(read.ids)
        if size <= CORE + 2 * CONTEXT:
            if size:
                yield Window(number, 0, size, (0, size))
            continue
        for first in range(0, size, CORE):
            last = min(size, first + CORE)
            yield Window(number, max(0, first - CONTEXT), min(size, last + CONTEXT), (first, last))


def batches(every: Sequence[Window], most: int) -> Iterator[list[Window]]:
    """Windows of similar length together, at most so many pieces with their padding."""
    ordered = sorted(every, key=lambda window: window.end - window.start)
    batch: list[Window] = []
    for window in ordered:
        if batch and (len(batch) + 1) * (window.end - window.start + 2) > most:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch
