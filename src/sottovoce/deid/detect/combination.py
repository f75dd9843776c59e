"""Several detectors at once, and the policy for spans that overlap.

The policy is the same whatever the order in which spans were found: spans that share a character
become one span over all of their characters, of the type of the longest of them (then the one of
patterns, which know forms, then that of the earlier detector, then the leftmost). No span cuts a
word in two, nor a name with a hyphen or an apostrophe: its edges move outwards, since half a name
left over is a leak. A value with a digit takes the whole run of letters, digits and signs that it
stands in: what is left of a number tells of the number. A possessive ending is grammar and stays.
White space at the edges belongs to no span.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from sottovoce.corpora import Span, Utterance
from sottovoce.deid.detect.detector import Detector, Gold, types_of
from sottovoce.deid.detect.language.guard import LanguageGuard
from sottovoce.deid.detect.patterns import Patterns
from sottovoce.errors import InvalidInput

_WITHIN = "-'’‐‑"
_SIGNS = frozenset(":/\\-_+=@#&~%*|‐‑")
"""Signs that join the parts of a number; a point or a comma joins two digits only."""
_POSSESSIVE = re.compile(r"['’]s(?!\w)", re.IGNORECASE)


class Combination:
    """Everything that any of the detectors finds.

    >>> from sottovoce.deid.detect import Gazetteer, Patterns
    >>> both = Combination([Gazetteer({"LOC": ["new york"]}), Patterns()])
    >>> both.name
    'gazetteer+patterns'
    >>> from sottovoce.deid.detect.detector import utterance_of
    >>> both.find([utterance_of("mail a@b.example from New York")])
    [[Span(start=5, end=16, type='EMAIL'), Span(start=22, end=30, type='LOC')]]
    """

    def __init__(
        self,
        detectors: Sequence[Detector],
        *,
        allow: Iterable[str] = (),
        guard: LanguageGuard | None = None,
    ) -> None:
        """Values of the list `allow` stay in the text, in any case, if they stand by themselves.

        A `guard` refuses text of another language than the detectors know.
        """
        if not detectors:
            raise InvalidInput("Expected at least one detector, got none.")
        if any(each.name == "gold" and not isinstance(each, Gold) for each in detectors):
            # Statements say of annotations that they miss nothing.
            raise InvalidInput(
                "Expected another name for a custom detector than gold, which is the name "
                "of the annotations."
            )
        self.detectors = tuple(detectors)
        self.guard = guard
        self.allowed = frozenset(filter(None, map(_plain, allow)))

    def is_allowed(self, value: str) -> bool:
        """Whether the list of allowed values has it."""
        return bool(self.allowed) and _plain(value) in self.allowed

    @property
    def name(self) -> str:
        return "+".join(detector.name for detector in self.detectors)

    @property
    def types(self) -> frozenset[str] | None:
        """The types that any of them may find; None if one does not say."""
        found: frozenset[str] = frozenset()
        for detector in self.detectors:
            its = types_of(detector)
            if its is None:
                return None
            found |= its
        return found

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        if self.guard is not None:
            self.guard.read(utterance.text for utterance in batch)
        found = [detector.find(batch) for detector in self.detectors]
        for detector, lists in zip(self.detectors, found, strict=True):
            if len(lists) != len(batch):
                raise InvalidInput(
                    f"Expected {detector.name} to answer for all {len(batch)} utterances, "
                    f"got {len(lists)} answers."
                )
        settled: list[list[Span]] = []
        by_form = sorted(
            zip(self.detectors, found, strict=True),
            key=lambda pair: not isinstance(pair[0], Patterns),
        )
        for utterance, *lists in zip(batch, *(lists for _, lists in by_form), strict=True):
            filled = [each for each in lists if each]
            settled.append(merged(utterance.text, *filled) if filled else [])
        return (
            settled
            if not self.allowed
            else [
                [
                    span
                    for span in spans
                    if not self.is_allowed(utterance.text[span.start : span.end])
                ]
                for utterance, spans in zip(batch, settled, strict=True)
            ]
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "detector": self.name,
            "parts": [detector.to_json() for detector in self.detectors],
            **({"allowed": sorted(self.allowed)} if self.allowed else {}),
        }


def _plain(value: str) -> str:
    return " ".join(value.casefold().split())


def merged(text: str, *found: Sequence[Span]) -> list[Span]:
    """Spans that do not overlap and cut no word, in the order of the text.

    >>> merged("anna lee", [Span(0, 2, "PER")], [Span(0, 8, "ORG")])
    [Span(start=0, end=8, type='ORG')]
    """
    if len(found) == 1 and _is_settled(text, found[0]):
        return list(found[0])
    ordered = sorted(
        (_checked(text, span), rank) for rank, spans in enumerate(found) for span in spans
    )
    candidates = []
    reach = (0, 0)
    for span, rank in ordered:
        start, end, kind = span
        # Inside of a run that was walked over already there is nothing to walk over: a run of
        # many values would else take the square of its length.
        if not (reach[0] <= start and end <= reach[1]):
            start, end, kind = _whole_words(text, span)
            reach = (start, end)
        if start < end:
            # How much of it was found counts, not how long a run it stands in.
            candidates.append((start, end, rank, kind, span.end - span.start))
    candidates.sort()
    settled: list[Span] = []
    best: tuple[int, int, int] = (0, 0, 0)
    for start, end, rank, kind, size in candidates:
        strength = (size, -rank, -start)
        if settled and start < settled[-1].end:
            last = settled[-1]
            settled[-1] = Span(
                last.start, max(last.end, end), kind if strength > best else last.type
            )
            best = max(best, strength)
        else:
            settled.append(Span(start, end, kind))
            best = strength
    return settled


def _is_settled(text: str, spans: Sequence[Span]) -> bool:
    """Whether all is as it should be: whole words between blanks, one span after the other."""
    beyond, size = 0, len(text)
    for start, end, _ in spans:
        if (
            not beyond <= start < end <= size
            or (start and text[start - 1] != " ")
            or (end < size and text[end] != " ")
            or text[start].isspace()
            or text[end - 1].isspace()
        ):
            return False
        beyond = end
    return True


def _checked(text: str, span: Span) -> Span:
    if not 0 <= span.start < span.end <= len(text):
        raise InvalidInput(
            f"Expected a span of {span.type} inside a text of {len(text)} characters, got {span}."
        )
    return span


def _whole_words(text: str, span: Span) -> Span:
    start, end, kind = span
    size = len(text)
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    if start == end:
        return Span(start, end, kind)
    if start and text[start - 1] != " ":
        start = _left(text, start)
    if end < size and text[end] != " ":
        end = _right(text, end)
    if (start and text[start - 1] in _RUN) or (end < size and text[end] in _RUN):
        start, end = _run(text, start, end)
    return Span(start, end, kind)


_RUN = _SIGNS | frozenset(".,")


def _run(text: str, start: int, end: int) -> tuple[int, int]:
    """The run that a value with a digit stands in."""
    if not any(character.isdigit() for character in text[start:end]):
        return start, end
    size = len(text)
    while start > 1 and _continues(text[start], text[start - 1], text[start - 2]):
        start = _left(text, start - 2)
    while end + 1 < size and _continues(text[end - 1], text[end], text[end + 1]):
        end = _right(text, end + 2)
    return start, end


def _continues(edge: str, sign: str, beyond: str) -> bool:
    if sign in ".,":
        return edge.isdigit() and beyond.isdigit()
    return sign in _SIGNS and beyond.isalnum()


def _left(text: str, start: int) -> int:
    """Where the word begins that a value begins in."""
    while start and _joins(text[start]):
        if _joins(text[start - 1]):
            start -= 1
        elif start > 1 and text[start - 1] in _WITHIN and _joins(text[start - 2]):
            start -= 2
        else:
            break
    return start


def _right(text: str, end: int) -> int:
    """Where the word ends that a value ends in; a possessive ending is left out."""
    size = len(text)
    while end < size and _joins(text[end - 1]):
        if _joins(text[end]):
            end += 1
        elif end + 1 < size and text[end] in _WITHIN and _joins(text[end + 1]):
            if _POSSESSIVE.match(text, end):
                break
            end += 2
        else:
            break
    return end


def _joins(character: str) -> bool:
    # Accents may stand behind their letter.
    return character.isalnum() or character == "_" or bool(unicodedata.combining(character))
