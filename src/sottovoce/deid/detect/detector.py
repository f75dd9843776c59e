"""What a detector is: utterances in, typed character spans out.

A detector sees a batch at a time, because most of the cost of a small text is the cost of a call.
It has to look at all of the text whatever its length, and to raise rather than to skip: text that
nobody looked at is text that was let through.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from sottovoce.corpora import Span, Utterance


class Detector(Protocol):
    """Finds private values. Spans may overlap; `combination.merged` settles that."""

    @property
    def name(self) -> str:
        """How reports call it."""

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        """The spans of every utterance, by offsets into its `text`."""

    def to_json(self) -> dict[str, Any]:
        """What it is made of, for the release manifest."""


def utterance_of(text: str, user: str = "") -> Utterance:
    """Plain text as an utterance without labels.

    >>> utterance_of("call  mum").tokens
    ('call', 'mum')
    """
    tokens = tuple(text.split())
    return Utterance(tokens=tokens, slots=("O",) * len(tokens), text=text, user=user)
