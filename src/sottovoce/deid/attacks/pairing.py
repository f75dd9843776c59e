"""Which value became what, read from an original and its release: what attacks are judged by.

The text between the private values is released as it is. So the values of a released utterance are
what stands between the pieces of the original that stand between its private values.
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
    """A private value, what it became, and the released text around it."""

    type: str
    value: str
    output: str
    before: str
    after: str


def outputs_of(original: str, released: str, spans: Sequence[Span]) -> list[ReplacedValue] | None:
    """What became of the spans; None if the release cannot have come from them.

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
            # The first place that fits leaves the most room for those that come later.
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


def told_values(
    originals: Iterable[Utterance], released: Iterable[Utterance], detector: Detector
) -> list[ReplacedValue]:
    """The values of a whole release, by the detector that it was made with.

    Where the detector does not explain a difference, that is refused: attacks on the wrong values
    would look harmless.
    """
    found: list[ReplacedValue] = []
    before, after = iter(originals), iter(released)
    number = 0
    while batch := list(islice(before, _BATCH)):
        told = list(islice(after, len(batch)))
        if len(told) != len(batch):
            raise InvalidInput(
                f"Expected as many released utterances as originals, got only {number + len(told)}."
            )
        for original, release, spans in zip(batch, told, detector.find(batch), strict=True):
            number += 1
            values = outputs_of(original.text, release.text, spans)
            if values is None:
                raise InvalidInput(
                    f"Expected utterance {number} to differ from its original only in what "
                    f"{detector.name} finds; name the detector of the release."
                )
            found += values
    if next(after, None) is not None:
        raise InvalidInput(
            f"Expected {number} released utterances, as many as originals, got more."
        )
    return found
