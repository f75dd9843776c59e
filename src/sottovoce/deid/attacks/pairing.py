"""Pairs every private value with its replacement: the ground truth for attacks.

The text between private values is released unchanged, so the replacements are found by aligning the
released text on those unchanged parts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from sottovoce.corpora import Span, Utterance
from sottovoce.deid.detect import Detector
from sottovoce.errors import InvalidInput

_BATCH = 512


@dataclass(frozen=True, kw_only=True)
class ReplacedValue:
    """A private value, its replacement, and the released text around it."""

    type: str
    value: str
    output: str
    before: str
    after: str


def outputs_of(original: str, released: str, spans: Sequence[Span]) -> list[ReplacedValue] | None:
    """The replacement of each span; None if the release does not match the spans.

    >>> outputs_of("call mum now", "call anna lee now", [Span(5, 8, "PER")])[0].output
    'anna lee'
    >>> outputs_of("call mum now", "ring anna now", [Span(5, 8, "PER")]) is None
    True
    """
    if not spans:
        return [] if original == released else None
    if not released.startswith(original[: spans[0].start]):
        return None
    found: list[ReplacedValue] = []
    begin = spans[0].start
    for span, following in zip(spans, [*spans[1:], None], strict=True):
        piece = original[span.end : following.start if following else None]
        if following:
            # The earliest match leaves the most room for later ones.
            end = released.find(piece, begin + 1)
        else:
            end = len(released) - len(piece) if released.endswith(piece) else -1
        if end <= begin:
            return None
        found.append(
            ReplacedValue(
                type=span.type,
                value=original[span.start : span.end],
                output=released[begin:end],
                before=released[:begin],
                after=released[end:],
            )
        )
        begin = end + len(piece)
    return found


def replaced_values(
    originals: Iterable[Utterance], released: Iterable[Utterance], detector: Detector
) -> list[ReplacedValue]:
    """The replaced values of a whole release, given the detector it was made with.

    A difference that the detector does not explain is an error: attacks on the wrong values would
    look harmless.
    """
    found: list[ReplacedValue] = []
    before, after = iter(originals), iter(released)
    count = 0
    while batch := list(islice(before, _BATCH)):
        outputs = list(islice(after, len(batch)))
        if len(outputs) != len(batch):
            raise InvalidInput(
                "Expected as many released utterances as originals, got only "
                f"{count + len(outputs)}."
            )
        for original, release, spans in zip(batch, outputs, detector.find(batch), strict=True):
            count += 1
            values = outputs_of(original.text, release.text, spans)
            if values is None:
                raise InvalidInput(
                    f"Expected utterance {count} to differ from its original only in values that "
                    f"{detector.name} finds, got other changes: name the detector of the release."
                )
            found += values
    if next(after, None) is not None:
        raise InvalidInput(f"Expected {count} released utterances, as many as originals, got more.")
    return found
