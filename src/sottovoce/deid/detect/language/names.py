"""Names and places of a language by lists and by their neighbours.

A first name begins a person, and so does a title; the words with a capital behind it belong to it.
A last name alone tells nothing, since most are words too. In text without capitals first names and
places are found by the lists alone.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.corpora import Span, Utterance
from sottovoce.deid.detect.findings import Finding
from sottovoce.deid.detect.words import WORD

_MOST_WORDS = 3
_PARTICLES = frozenset(["von", "van", "der", "zu", "de", "del", "la", "las", "los", "da", "y"])
_GAP = re.compile(r"\.? |-")


class NameLists:
    """The detector.

    >>> lists = {"first": ("Jürgen",), "last": ("Koch",), "place": ("Bonn",)}
    >>> names = NameLists("de", lists, frozenset({"frau"}), frozenset())
    >>> text = "Frau Schmidt-Koch und Jürgen Koch wohnen in Bonn"
    >>> [text[found.start : found.end] for found in names.explain(text)]
    ['Schmidt-Koch', 'Jürgen Koch', 'Bonn']
    """

    types = ("PER", "LOC")

    def __init__(
        self,
        language: str,
        lists: Mapping[str, Sequence[str]],
        titles: frozenset[str],
        ordinary: frozenset[str],
    ) -> None:
        self.name = f"names {language}"
        self._language, self._titles, self._ordinary = language, titles, ordinary
        self._first = {name.lower() for name in lists["first"]}
        self._last = {name.lower() for name in lists["last"]}
        self._places: dict[str, list[tuple[str, ...]]] = {}
        for place in lists["place"]:
            words = tuple(WORD.findall(place.lower()))
            self._places.setdefault(words[0], []).append(words)

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        return [
            [Span(found.start, found.end, found.type) for found in self.explain(utterance.text)]
            for utterance in batch
        ]

    def explain(self, text: str) -> list[Finding]:
        """Every name with the list or the title that tells it."""
        words = list(WORD.finditer(text))
        cased = any(word[0][0].isupper() for word in words[1:])
        found: list[Finding] = []
        position = 0
        while position < len(words):
            kind, reason, first, after = self._at(text, words, position, cased)
            if kind:
                start, end = words[first].start(), words[after - 1].end()
                found.append(Finding(start, end, kind, 1.0, f"{self.name}: {reason}"))
            position = max(position + 1, after)
        return found

    def _at(
        self, text: str, words: Sequence[re.Match[str]], position: int, cased: bool
    ) -> tuple[str, str, int, int]:
        """The type, the reason, and the words of a value that begins here; no type for none."""
        word = words[position][0]
        lower = word.lower()
        if lower in self._titles:
            first = position + 1
            while first < len(words) and (
                words[first][0] == "." or words[first][0].lower() in self._titles
            ):
                first += 1
            after = self._end(text, words, first, cased, at_least=0)
            if after > first:
                return "PER", "after a title", first, after
        if cased and not word[0].isupper():
            return "", "", position, position + 1
        if lower not in self._ordinary:
            if lower in self._first:
                after = self._end(text, words, position + 1, cased, at_least=position + 1)
                return "PER", "first name", position, after
            if after := self._place(words, position):
                return "LOC", "place", position, after
        elif lower in self._first and cased and position + 1 < len(words):
            follows = words[position + 1][0].lower()
            if follows in self._last and follows not in self._ordinary:
                return "PER", "first and last name", position, position + 2
        return "", "", position, position + 1

    def _place(self, words: Sequence[re.Match[str]], position: int) -> int:
        """Where a place that begins here ends; 0 for none."""
        best = 0
        for parts in self._places.get(words[position][0].lower(), ()):
            here = words[position : position + len(parts)]
            if tuple(word[0].lower() for word in here) == parts:
                best = max(best, position + len(parts))
        return best

    def _end(
        self, text: str, words: Sequence[re.Match[str]], first: int, cased: bool, at_least: int
    ) -> int:
        """Where the words of a name end: those with a capital, or listed ones where none has."""
        after, names = first, 0
        end = max(first, at_least)
        while after < len(words) and names < _MOST_WORDS:
            word = words[after][0]
            between = text[words[after - 1].end() : words[after].start()] if after else ""
            if after and not (between == "" or _GAP.fullmatch(between)):
                break
            lower = word.lower()
            listed = lower in self._last or lower in self._first
            if word[0].isalpha() and (word[0].isupper() if cased else listed):
                after += 1
                names += 1
                end = after
            elif lower in _PARTICLES or (word == "-" and names):
                after += 1
            else:
                break
        return end

    def to_json(self) -> dict[str, Any]:
        return {"detector": self.name, "language": self._language, "names": len(self._first)}
