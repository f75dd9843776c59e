"""Lists of known values in a token trie: every position is looked up once, longest match wins."""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sottovoce.corpora import Span, Utterance
from sottovoce.deid.detect.words import WORD, lowered, plain_words, words_of
from sottovoce.errors import InvalidInput

_END = ""
"""Key of the type in a node of the trie; no word is empty."""
Node = dict[str, Any]


class Gazetteer:
    """Finds listed values, in any case, with any white space between their words.

    A possessive ending does not hide a value, and neither does another Unicode form of the same
    letters. A value of two types has the type listed first.

    >>> found = Gazetteer({"LOC": ["york", "new york"], "PER": ["anna", "york"]})
    >>> from sottovoce.deid.detect.detector import utterance_of
    >>> found.find([utterance_of("is Anna's flight to New  York late")])
    [[Span(start=3, end=7, type='PER'), Span(start=20, end=29, type='LOC')]]
    """

    def __init__(self, values: Mapping[str, Iterable[str]], name: str = "gazetteer") -> None:
        self.name = name
        self.size = 0
        self.types = tuple(values)
        self._trie: Node = {}
        digest = hashlib.sha256()
        for kind, entries in values.items():
            if isinstance(entries, str):
                raise InvalidInput(
                    f"Expected a list of values of {kind}, got the text {entries!r}."
                )
            for entry in entries:
                self.size += sum(self._add(form, kind) for form in _forms(entry)) > 0
                digest.update(f"{kind}\t{entry}\n".encode())
        if not self._trie:
            raise InvalidInput("Expected at least one value in a gazetteer, got none.")
        self._digest = digest.hexdigest()

    def _add(self, entry: str, kind: str) -> bool:
        """Whether it is new."""
        words = words_of(entry)
        if not words:
            raise InvalidInput(f"Expected a value with at least one word, got {entry!r}.")
        node = self._trie
        for word in words:
            node = node.setdefault(word.lower.replace("’", "'").removesuffix("'s"), {})
        new = _END not in node
        node.setdefault(_END, kind)
        return new

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        return [self._spans(utterance.text) for utterance in batch]

    def _spans(self, text: str) -> list[Span]:
        lower = lowered(text).replace("’", "'")
        trie = self._trie
        originals = plain_words(lower)
        starts: list[int] | None = None
        if originals is None:
            matches = list(WORD.finditer(lower))
            originals = [match[0] for match in matches]
            starts = [match.start() for match in matches]
        words = originals
        if "'" in lower:
            # A possessive ending is grammar, not part of the value; it stays.
            words = [word.removesuffix("'s") for word in words]
        if trie.keys().isdisjoint(words):
            return []
        found: list[Span] = []
        beyond = 0
        for position, word in enumerate(words):
            if word in trie and position >= beyond:
                kind, after = self._longest(words, position)
                if kind:
                    beyond = after
                    start = _start(originals, position) if starts is None else starts[position]
                    last = start
                    if after > position + 1:
                        last = _start(originals, after - 1) if starts is None else starts[after - 1]
                    found.append(Span(start, last + len(words[after - 1]), kind))
        return found

    def _longest(self, words: Sequence[str], position: int) -> tuple[str, int]:
        """The type of the longest value that begins here, and where it ends."""
        node, kind, after = self._trie[words[position]], "", position + 1
        end = after
        while True:
            if _END in node:
                kind, end = node[_END], after
            if after == len(words) or words[after] not in node:
                return kind, end
            node = node[words[after]]
            after += 1

    def to_json(self) -> dict[str, Any]:
        return {"detector": self.name, "values": self.size, "sha256": self._digest}


def _forms(entry: str) -> tuple[str, ...]:
    """The ways to write the same letters: an accent is part of its letter, or follows it."""
    if entry.isascii():
        return (entry,)
    return tuple(
        dict.fromkeys([entry, *(unicodedata.normalize(form, entry) for form in ("NFC", "NFD"))])
    )


def _start(words: Sequence[str], position: int) -> int:
    """Where a word begins in a text of words parted by single blanks."""
    return sum(map(len, words[:position])) + position
