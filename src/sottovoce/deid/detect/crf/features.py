"""What a tagger knows of a word: its letters, its shape, its lists, and the same of its neighbours.

Features are strings; those of a word do not depend on where it stands, so they are made once and
kept. Letters are compared in lower case and the shape is a feature of its own: speech transcripts
without capitals and written text then share all the rest.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Protocol

from sottovoce.corpora.synthetic import lexicon

_LISTS = ("first_names", "last_names", "cities", "streets", "medicines", "conditions", "symptoms")
_MOST_KEPT = 200_000  # words; then the memory starts afresh, so that it stays bounded
_UPPER, _LOWER, _DIGIT = re.compile(r"[A-Z]+"), re.compile(r"[a-z]+"), re.compile(r"\d")

Lists = tuple[list[str], list[str], list[str], list[str], list[str]]


class Reading(Protocol):
    """How a tagger reads words: what it takes of the text around them, and their features."""

    def marked(self, text: str, words: Sequence[str]) -> Sequence[str]:
        """The words of a text, each with what `lists_of` has to know of the text."""

    def lists_of(self, marked: str) -> Lists:
        """Features as the word itself, as the one before, after, two before and two after."""


class Basic:
    """Every word by itself, with the public lists of this package."""

    def marked(self, text: str, words: Sequence[str]) -> Sequence[str]:
        return words

    def lists_of(self, marked: str) -> Lists:
        return features_of(marked)


class Features:
    """The features of the words of a text.

    >>> Features().of(["Call", "anna"])[1][:5]
    ['w=anna', 's=x', 'p=ann', 'e=nna', 'l=first_names']
    """

    def __init__(self, lists_of: "Callable[[str], Lists] | None" = None) -> None:
        self._known = _Memory(lists_of or features_of)

    def of(self, words: Sequence[str]) -> list[list[str]]:
        known = self._known
        if len(known) > _MOST_KEPT:
            known.clear()
        lists = [known[word] for word in words]
        padded = [FAR_EDGE, EDGE, *lists, EDGE, FAR_EDGE]
        return [
            [*here[0], *before[1], *after[2], *far_before[3], *far_after[4]]
            for far_before, before, here, after, far_after in zip(
                padded, padded[1:], lists, padded[3:], padded[4:], strict=False
            )
        ]


class _Memory(dict[str, "Lists"]):
    """The features of the words that were met."""

    def __init__(self, lists_of: Callable[[str], Lists]) -> None:
        super().__init__()
        self._lists_of = lists_of

    def __missing__(self, word: str) -> "Lists":
        found = self[word] = self._lists_of(word)
        return found


def features_of(word: str) -> Lists:
    """Features as the word itself, as the one before, after, two before and two after."""
    lower = word.lower().replace("’", "'")
    normal = _DIGIT.sub("0", lower)
    shape = _DIGIT.sub("0", _LOWER.sub("x", _UPPER.sub("X", word)))[:6]
    members = _memberships().get(lower.removesuffix("'s"), ())
    here = [
        f"w={lower}",
        f"s={shape}",
        f"p={lower[:3]}",
        f"e={lower[-3:]}",
        # Numbers of one form are alike.
        *([f"n={normal}"] if normal != lower else []),
        *(f"l={name}" for name in members),
    ]
    near = [f"={normal}", f"s={shape}", f"e={lower[-3:]}", *(f"l={name}" for name in members)]
    return (
        here,
        [f"-1{feature}" for feature in near],
        [f"+1{feature}" for feature in near],
        [f"-2={normal}"],
        [f"+2={normal}"],
    )


EDGE: Lists = ([], ["-1edge"], ["+1edge"], ["-2edge"], ["+2edge"])
FAR_EDGE: Lists = ([], [], [], ["-2edge"], ["+2edge"])


@cache
def _memberships() -> Mapping[str, tuple[str, ...]]:
    """The public lists that a word occurs in."""
    found: dict[str, list[str]] = {}
    for name in _LISTS:
        for word in {word for entry in lexicon(name) for word in entry.split()}:
            found.setdefault(word, []).append(name)
    return {word: tuple(names) for word, names in found.items()}
