"""Conversion between character spans and BIO labels.

A span is a half-open range of code points of `text` with a type. To convert spans to labels, the
text is split at white space and at the edges of spans, so a span may start inside a word, and
adjacent spans of one type stay separate (B-x B-x). Spans that labels cannot express (overlapping,
empty, out of range, or with white space at an edge) are refused, never changed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sottovoce.corpora.records import OUTSIDE, Utterance, check_bio
from sottovoce.errors import InvalidInput

_WORD = re.compile(r"\S+")


class Span(NamedTuple):
    """`text[start:end]` has this type. Offsets are in code points, as in Python."""

    start: int
    end: int
    type: str


def spans_of(utterance: Utterance) -> list[Span]:
    """The annotated spans, in text order.

    >>> spans_of(Utterance(tokens=("call", "mum", "!"), slots=("O", "B-contact", "O"),
    ...                    text="call mum!"))
    [Span(start=5, end=8, type='contact')]
    """
    check_bio(utterance.slots)
    spans: list[Span] = []
    offsets = token_offsets(utterance.text, utterance.tokens)
    for label, (start, end) in zip(utterance.slots, offsets, strict=True):
        if label.startswith("B-"):
            spans.append(Span(start, end, label[2:]))
        elif label.startswith("I-"):
            spans[-1] = spans[-1]._replace(end=end)
    return spans


def from_spans(
    text: str,
    spans: Iterable[Span],
    *,
    tokens: Sequence[str] | None = None,
    intent: str = "",
    user: str = "",
    id: str = "",
    extra: Mapping[str, Any] | None = None,
) -> Utterance:
    """Label the tokens of `text`; without `tokens`, split at white space and at span edges.

    >>> u = from_spans("call mum!", [Span(5, 8, "contact")])
    >>> u.tokens, u.slots
    (('call', 'mum', '!'), ('O', 'B-contact', 'O'))
    >>> from_spans("call mum!", [Span(4, 8, "contact")])
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected spans without white space at their edges, got
    Span(start=4, end=8, type='contact').
    """
    ordered = _checked(text, spans)
    offsets = _cut(text, ordered) if tokens is None else token_offsets(text, tokens)
    return Utterance(
        tokens=tuple(text[start:end] for start, end in offsets),
        slots=_labels(offsets, ordered),
        intent=intent,
        user=user,
        id=id,
        text=text,
        extra={} if extra is None else extra,
    )


def token_offsets(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Offsets of each token in the text; only white space may lie between tokens.

    >>> token_offsets("call  mum!", ["call", "mum", "!"])
    [(0, 4), (6, 9), (9, 10)]
    """
    offsets: list[tuple[int, int]] = []
    end = 0
    for position, token in enumerate(tokens):
        start = text.find(token, end)
        if not token or start < 0 or text[end:start].strip():
            raise InvalidInput(
                f"Expected token {position} at character {end} of the text (after optional white "
                "space), got other characters."
            )
        offsets.append((start, start + len(token)))
        end = start + len(token)
    if text[end:].strip():
        raise InvalidInput(
            f"Expected the tokens to cover the text, got more text from character {end} on."
        )
    return offsets


def _checked(text: str, spans: Iterable[Span]) -> list[Span]:
    ordered = sorted(spans)
    previous = Span(0, 0, "")
    for span in ordered:
        start, end, kind = span
        if not kind:
            raise InvalidInput(f"Expected a type for every span, got {span}.")
        if not 0 <= start < end <= len(text):
            raise InvalidInput(
                f"Expected spans with 0 <= start < end <= {len(text)}, the length of the text, "
                f"got {span}."
            )
        if text[start].isspace() or text[end - 1].isspace():
            raise InvalidInput(f"Expected spans without white space at their edges, got {span}.")
        if start < previous.end:
            raise InvalidInput(
                f"Expected spans that do not overlap, got {previous} and {span}: remove one."
            )
        previous = span
    return ordered


def _cut(text: str, spans: Sequence[Span]) -> list[tuple[int, int]]:
    edges = sorted({edge for span in spans for edge in (span.start, span.end)})
    offsets: list[tuple[int, int]] = []
    following = 0
    for word in _WORD.finditer(text):
        start, end = word.span()
        while following < len(edges) and edges[following] < end:
            if edges[following] > start:
                offsets.append((start, edges[following]))
                start = edges[following]
            following += 1
        offsets.append((start, end))
    return offsets


def _labels(offsets: Sequence[tuple[int, int]], spans: Sequence[Span]) -> tuple[str, ...]:
    labels = [OUTSIDE] * len(offsets)
    at_start = {start: position for position, (start, _) in enumerate(offsets)}
    at_end = {end: position for position, (_, end) in enumerate(offsets)}
    for span in spans:
        first, last = at_start.get(span.start), at_end.get(span.end)
        if first is None or last is None:
            raise InvalidInput(
                f"Expected spans that start and end at token boundaries, got {span}: omit the "
                "tokens to have the text split at the spans."
            )
        labels[first : last + 1] = [f"B-{span.type}"] + [f"I-{span.type}"] * (last - first)
    return tuple(labels)
