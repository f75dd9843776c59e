"""The record of an utterance: tokens, slot labels, intent and user.

Tokens with BIO slot labels are the primary form; `text` keeps the original characters, so that
character spans and labels can be converted without loss (see `spans`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sottovoce.errors import InvalidInput

OUTSIDE = "O"


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """A labelled utterance. `extra` holds all other keys of the record.

    >>> u = Utterance(tokens=("call", "mum"), slots=("O", "B-contact"), intent="call")
    >>> u.text
    'call mum'
    >>> Utterance(tokens=("call", "mum"), slots=("O",))
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected one slot label for each of 2 tokens, got 1.
    """

    tokens: tuple[str, ...]
    slots: tuple[str, ...]
    intent: str = ""
    user: str = ""
    id: str = ""
    text: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.slots):
            raise InvalidInput(
                f"Expected one slot label for each of {len(self.tokens)} tokens, "
                f"got {len(self.slots)}."
            )
        if not self.text:
            object.__setattr__(self, "text", " ".join(self.tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank(Utterance):
    """A record without text, where a reader was asked to keep it (see `formats.read`)."""

    tokens: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()


def check_bio(slots: tuple[str, ...]) -> None:
    """Refuse labels that are not valid BIO: every I-x must follow a B-x or an I-x.

    >>> check_bio(("O", "B-name", "I-name"))
    >>> check_bio(("O", "I-name"))
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected B-name or I-name before I-name at token 1, got O.
    """
    previous = OUTSIDE
    for position, label in enumerate(slots):
        if label != OUTSIDE:
            prefix, kind = label[:2], label[2:]
            if prefix not in ("B-", "I-") or not kind:
                raise InvalidInput(
                    f"Expected O, B-type or I-type at token {position}, got another label."
                )
            if prefix == "I-" and (previous == OUTSIDE or previous[2:] != kind):
                raise InvalidInput(
                    f"Expected B-{kind} or I-{kind} before {label} at token {position}, "
                    f"got {previous}."
                )
        previous = label


def repair_bio(slots: tuple[str, ...]) -> tuple[str, ...]:
    """Replace each I-x that does not continue a span by B-x.

    This converts exactly from the older IOB1 convention, where B- is used only between adjacent
    spans of the same type; for other errors it is the usual heuristic.

    >>> repair_bio(("I-name", "I-name", "B-name", "I-city"))
    ('B-name', 'I-name', 'B-name', 'B-city')
    """
    repaired: list[str] = []
    previous = OUTSIDE
    for label in slots:
        continues = previous != OUTSIDE and previous[2:] == label[2:]
        repaired.append(label if label[:2] != "I-" or continues else f"B-{label[2:]}")
        previous = label
    return tuple(repaired)


_NAMES = """
user users agent agents assistant system bot chatbot robot machine model ai llm tool function
human person customer caller callee client guest visitor patient doctor nurse student teacher
operator advisor adviser representative rep staff support service helpdesk moderator admin
interviewer interviewee speaker listener sender receiver recipient source target self other me
you them us they inbound outbound incoming outgoing in out left right both usr sys cust unknown
anonymous none null nobody n/a na nan undefined default
"""
_ROLES = frozenset(_NAMES.split())


def is_role(name: str) -> bool:
    """Whether the name is that of a role or a placeholder, not of a person.

    >>> is_role("Agent"), is_role("[USER]"), is_role("u00017"), is_role("ann")
    (True, True, False, False)
    """
    return name.strip(" \t<>[](){}:|#*_-\"'").lower() in _ROLES
