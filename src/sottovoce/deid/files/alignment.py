"""Offsets between original and released text, and realignment of tokens and labels.

A released text differs from its original only in the replaced pieces. Outside a piece, positions
map one to one; inside, only its two edges correspond.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sottovoce.corpora import OUTSIDE, Utterance, repair_bio
from sottovoce.corpora.spans import token_offsets

Piece = tuple[int, int, str, str]
"""Start, end and type of a replaced span, and its replacement."""


class Replacement(NamedTuple):
    """`original[start:end]` became `released[new_start:new_end]`, perhaps unchanged."""

    start: int
    end: int
    new_start: int
    new_end: int
    type: str


@dataclass(frozen=True)
class Offsets:
    """Maps positions between the original and the released text.

    >>> offsets = Offsets((Replacement(5, 8, 5, 11, "PER"),))   # call mum now, call hannah now
    >>> offsets.to_released(9), offsets.to_original(12)
    (12, 9)
    >>> offsets.to_released(6), offsets.to_released(6, after=True)   # inside: the edges
    (5, 11)
    """

    replacements: tuple[Replacement, ...] = ()

    def to_released(self, place: int, *, after: bool = False) -> int:
        """The position in the released text; from inside a piece, its start (or its end)."""
        before = bisect_right(self.replacements, place, key=lambda piece: piece.start)
        if not before:
            return place
        piece = self.replacements[before - 1]
        if place >= piece.end:
            return place - piece.end + piece.new_end
        return piece.new_end if after and place > piece.start else piece.new_start

    def to_original(self, place: int, *, after: bool = False) -> int:
        """The position in the original text; from inside a piece, its start (or its end)."""
        before = bisect_right(self.replacements, place, key=lambda piece: piece.new_start)
        if not before:
            return place
        piece = self.replacements[before - 1]
        if place >= piece.new_end:
            return place - piece.new_end + piece.end
        return piece.end if after and place > piece.new_start else piece.start


def apply_pieces(text: str, pieces: Sequence[Piece]) -> tuple[str, Offsets]:
    """Apply replacements to a text; return the new text and the offsets.

    >>> apply_pieces("call mum now", [(5, 8, "PER", "hannah")])[0]
    'call hannah now'
    """
    parts: list[str] = []
    replacements = []
    place = length = 0
    for start, end, kind, output in pieces:
        parts += (text[place:start], output)
        length += start - place
        replacements.append(Replacement(start, end, length, length + len(output), kind))
        length += len(output)
        place = end
    parts.append(text[place:])
    return "".join(parts), Offsets(tuple(replacements))


def apply_to_text(text: str, pieces: Sequence[Piece]) -> str:
    """Apply replacements to a text, without offsets.

    >>> apply_to_text("call mum now", [(5, 8, "PER", "hannah")])
    'call hannah now'
    """
    parts: list[str] = []
    place = 0
    for start, end, _, output in pieces:
        parts += (text[place:start], output)
        place = end
    parts.append(text[place:])
    return "".join(parts)


def realign(utterance: Utterance, released: str, offsets: Offsets) -> tuple[list[str], list[str]]:
    """Tokens and BIO labels of the released text.

    Tokens that no piece touches stay unchanged. Those that a piece touches become the words of the
    piece (with any attached characters), and continue the label that the piece began with.

    >>> call = Utterance(tokens=("call", "mum", "now"), slots=("O", "B-who", "O"))
    >>> realign(call, *apply_pieces(call.text, [(5, 8, "PER", "anna lee")]))
    (['call', 'anna', 'lee', 'now'], ['O', 'B-who', 'I-who', 'O'])
    """
    tokens: list[str] = []
    labels: list[str] = []
    places = token_offsets(utterance.text, utterance.tokens)
    pieces = offsets.replacements
    position = following = 0
    while position < len(places):
        start, end = places[position]
        while following < len(pieces) and pieces[following].end <= start:
            following += 1
        if following == len(pieces) or pieces[following].start >= end:
            tokens.append(utterance.tokens[position])
            labels.append(utterance.slots[position])
            position += 1
            continue
        # Retokenise a run of tokens and pieces that overlap.
        first = position
        while following < len(pieces) and pieces[following].start < end:
            while position < len(places) and places[position][0] < pieces[following].end:
                end = max(end, places[position][1])
                position += 1
            following += 1
        start = min(start, pieces[following - 1].start)
        words = released[offsets.to_released(start) : offsets.to_released(end, after=True)].split()
        tokens += words
        labels += _labels(utterance.slots[first:position], len(words))
    return tokens, list(repair_bio(tuple(labels)))


def _labels(old: Sequence[str], count: int) -> list[str]:
    if len(old) == count:
        return list(old)
    kinds = [label for label in old if label != OUTSIDE]
    if not kinds:
        return [OUTSIDE] * count
    return [kinds[0], *([f"I-{kinds[0][2:]}"] * (count - 1))][:count]
