"""Conversion between table rows and utterances, with configurable column names.

Other columns are kept in `extra`; on writing, `extra` is one JSON object in its own column. In text
cells, tokens and labels are separated by spaces or written as a JSON list.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce.corpora.jsonl import dump_object, parse_object
from sottovoce.corpora.objects import KEYS, to_object
from sottovoce.corpora.records import Utterance
from sottovoce.errors import InvalidInput

FIELDS = ("id", "user", "intent", "text", "tokens", "slots", "extra")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which column holds which field. A column named here must exist; the others may be absent.

    >>> Columns(text="utt").name_of("text"), Columns(text="utt").name_of("intent")
    ('utt', 'intent')
    """

    id: str | None = None
    user: str | None = None
    intent: str | None = None
    text: str | None = None
    tokens: str | None = None
    slots: str | None = None
    extra: str | None = None

    def __post_init__(self) -> None:
        names = [self.name_of(field) for field in FIELDS]
        for name in names:
            if names.count(name) > 1:
                raise InvalidInput(f"Expected a different column per field, got {name!r} twice.")

    def name_of(self, field: str) -> str:
        """The column of a field: as configured, or the name of the field."""
        named: str | None = getattr(self, field)
        return field if named is None else named

    def check(self, header: Sequence[str]) -> None:
        """Refuse a header with duplicate or conflicting columns, or without a required column."""
        for name in header:
            if header.count(name) > 1:
                raise InvalidInput(f"Expected every column once, got {name!r} twice: rename one.")
            if name in KEYS and self.name_of(name) != name:
                raise InvalidInput(
                    f"Expected {self.name_of(name)!r} to be the only column of {name}, got a "
                    f"column named {name!r} as well: rename or drop it."
                )
        wanted = [name for field in FIELDS if (name := getattr(self, field)) is not None]
        if not {self.name_of("text"), self.name_of("tokens"), "reference"} & {*header}:
            wanted.append(self.name_of("text"))
        for name in wanted:
            if name not in header:
                raise InvalidInput(
                    f"Expected a column {name!r}, got {', '.join(map(repr, header)) or 'none'}: "
                    "name the column to read."
                )

    def record(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a row to a JSON object (see `objects`).

        >>> Columns(text="utt").record({"utt": "call mum", "slots": "O B-who", "day": "1"})
        {'day': '1', 'text': 'call mum', 'slots': ['O', 'B-who']}
        """
        record = dict(row)
        found = {field: record.pop(self.name_of(field), None) for field in FIELDS}
        if extra := found.pop("extra"):
            for key, value in parse_object(str(extra)).items():
                if key in KEYS or key in record:
                    raise InvalidInput(f"Expected every field once, got {key!r} twice.")
                record[key] = value
        for field, value in found.items():
            if value and field in ("tokens", "slots") and isinstance(value, str):
                value = _items(field, value)
            # Empty strings are valid names, but empty text, tokens or labels count as absent.
            if value is not None and (value != "" or field in ("id", "user", "intent")):
                record[field] = value
        return record

    def row(self, utterance: Utterance) -> dict[str, Any]:
        """The inverse of `record`; `extra` is JSON, or empty."""
        to_object(utterance)
        cells = {
            "id": utterance.id,
            "user": utterance.user,
            "intent": utterance.intent,
            "text": utterance.text,
            "tokens": list(utterance.tokens),
            "slots": list(utterance.slots),
            "extra": dump_object(dict(utterance.extra)) if utterance.extra else "",
        }
        return {self.name_of(field): cell for field, cell in cells.items()}


def cell_of(items: Sequence[str]) -> str:
    """Tokens or labels as one text cell.

    >>> cell_of(["O", "B-who"]), cell_of(["O", "B-first name"])
    ('O B-who', '["O", "B-first name"]')
    """
    joined = " ".join(items)
    if joined.startswith("[") or joined.split() != list(items):
        return json.dumps(list(items), ensure_ascii=False)
    return joined


def _items(field: str, cell: str) -> list[str]:
    if not cell.startswith("["):
        return cell.split()
    try:
        items = json.loads(cell)
    except ValueError:
        items = None
    if not isinstance(items, list):
        raise InvalidInput(
            f"Expected {field} separated by spaces or as a JSON list, got a cell that starts with "
            "[ but is not a JSON list."
        )
    return items
