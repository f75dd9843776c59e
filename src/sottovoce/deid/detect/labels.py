"""From the labels of a corpus to the types of private values: contact is a PER, city a LOC.

A de-identifier draws surrogates within a type, and the type of a private value is released with it.
A label that the mapping does not know is refused: treating it as harmless would let text through.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sottovoce.corpora import Span
from sottovoce.errors import InvalidInput

TYPES: Mapping[str, str] = {
    "PER": "people",
    "ORG": "organisations and groups",
    "LOC": "cities, countries, places",
    "ADDRESS": "postal addresses",
    "DATE": "days and dates",
    "TIME": "times of day",
    "PHONE": "telephone numbers",
    "EMAIL": "e-mail addresses",
    "URL": "web addresses",
    "IP": "network addresses",
    "CARD": "payment cards and bank accounts",
    "MONEY": "amounts of money",
    "ID": "other numbers that name somebody",
    "MEDICAL": "conditions, medicines, readings",
    "TITLE": "titles of works and lists",
    "TEXT": "free text such as messages",
    "MISC": "anything else that is private",
}
"""The types that the built-in detectors find and the built-in surrogates replace."""


@dataclass(frozen=True)
class LabelMap:
    """Which labels are private, and as what; `public` are known to be harmless.

    >>> labels = LabelMap({"contact": "PER"}, public=frozenset({"count"}))
    >>> labels.typed([Span(0, 3, "contact"), Span(4, 5, "count")])
    [Span(start=0, end=3, type='PER')]
    >>> labels.typed([Span(0, 3, "contract")])
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected a label of the mapping, got 'contract'; map it to a type
    such as PER, or list it as public.
    """

    private: Mapping[str, str] = field(default_factory=dict)
    public: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if both := sorted(self.public.intersection(self.private)):
            raise InvalidInput(f"Expected {both[0]!r} to be private or public, got both.")
        for label, kind in self.private.items():
            if not kind or kind != kind.strip():
                raise InvalidInput(f"Expected a type for the label {label!r}, got {kind!r}.")

    def type_of(self, label: str) -> str | None:
        """The type of a label; None where it is public."""
        kind = self.private.get(label)
        if kind is None and label not in self.public:
            raise InvalidInput(
                f"Expected a label of the mapping, got {label!r}; map it to a type such as PER, "
                "or list it as public."
            )
        return kind

    def typed(self, spans: Iterable[Span]) -> list[Span]:
        """The private ones among labelled spans, with the type in place of the label."""
        found = []
        for start, end, label in spans:
            kind = self.type_of(label)
            if kind is not None:
                found.append(Span(start, end, kind))
        return found

    def to_json(self) -> dict[str, Any]:
        return {"private": dict(self.private), "public": sorted(self.public)}

    @classmethod
    def from_json(cls, data: object) -> "LabelMap":
        """Read `{"private": {label: type}, "public": [label]}`."""
        match data:
            case {"private": dict(private), **rest} if all(
                isinstance(kind, str) for kind in private.values()
            ):
                public = rest.pop("public", [])
                if not rest and isinstance(public, list):
                    return cls(private, frozenset(map(str, public)))
        raise InvalidInput('Expected {"private": {label: type}, "public": [label, ...]} in JSON.')


def read_labels(path: str | Path) -> LabelMap:
    """Read a mapping from a JSON file."""
    try:
        return LabelMap.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"{path}: {problem}") from problem
