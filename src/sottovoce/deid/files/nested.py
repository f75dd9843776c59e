"""JSON records with texts at any depth: named paths, and the usual formats of conversations.

A path such as `turns[].text` names a key, keys inside it, and with `[]` every item of a list. The
texts at the paths are released, one utterance each; a record is one document, so consistent
surrogates hold within it. Everything else is refused unless it is kept or dropped: a field that
nobody named might hold private data.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from sottovoce.corpora import Reader, Utterance
from sottovoce.corpora.jsonl import dump_object, parse_object
from sottovoce.corpora.lines import Problems, text_lines
from sottovoce.deid.deidentifier import Deidentifier
from sottovoce.errors import InvalidInput

_STEP = re.compile(r"[^.\[\]]+(?:\[\])*")
CHATS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "messages": (
        ("messages[].content", "messages[].content[].text"),
        ("messages[].role", "messages[].content[].type"),
    ),
    "conversations": (("conversations[].value",), ("conversations[].from",)),
}
"""For the key of a conversation (OpenAI, ShareGPT): the paths of its texts, and of its roles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Utterance):
    """A text of a record; `document` is the record."""

    document: str = ""


def nested_reader(
    reader: Reader, fields: Iterable[str] = (), keep: Iterable[str] = ()
) -> "NestedReader | None":
    """A reader of texts at the paths `fields`, or of a recognised conversation; None if neither."""
    texts, kept = tuple(fields), tuple(keep)
    if not texts:
        record = reader.first_record()
        if {"text", "tokens", "reference"} & {*record}:
            return None
        key = next((key for key in CHATS if isinstance(record.get(key), list)), None)
        if key is None:
            return None
        texts, roles = CHATS[key]
        kept = (*kept, *roles)
    if reader.format != "jsonl":
        raise InvalidInput(f"Expected JSONL with --field, got {reader.format}: name a column.")
    return NestedReader(reader, texts, kept)


class NestedReader(Reader):
    """Reads the texts of every record, and writes the records with their released texts."""

    def __init__(self, reader: Reader, texts: Iterable[str], keep: Iterable[str]) -> None:
        super().__init__(
            reader.path,
            "jsonl",
            strict=reader.strict,
            line_limit=reader.line_limit,
            live=reader.live,
        )
        self._texts = frozenset(map(_checked, texts))
        self._keep = frozenset(map(_checked, keep))
        self._records: deque[tuple[dict[str, Any], int]] = deque()

    def _utterances(self, stream: BinaryIO, found: Problems) -> Iterator[Utterance]:
        self._records.clear()
        for number, line in text_lines(stream, found, self.line_limit):
            try:
                record = parse_object(line)
                user, id = _name(record, "user"), _name(record, "id")
                texts = [text for _, _, text in _places(record, "", self._texts)]
            except InvalidInput as problem:
                found.reject(number, problem)
                continue
            self._records.append((record, len(texts)))
            for place, text in enumerate(texts):
                words = tuple(text.split())
                yield Message(
                    tokens=words,
                    slots=("O",) * len(words),
                    text=text,
                    user=user,
                    id=f"{id}#{place}" if id else "",
                    document=id or f"record {number}",
                )

    def write(self, stream: BinaryIO, released: Iterator[Utterance], deid: Deidentifier) -> int:
        """Write the records, each when all of its texts are released; return their number."""
        if self._keep:
            kept = ", ".join(sorted(self._keep))
            deid.leave_uncovered(f"fields released as they are: {kept}")
        count = 0
        texts: list[str] = []
        for utterance in released:
            # Records without texts come before the one that this text belongs to.
            while self._records and not self._records[0][1]:
                count += self._write(stream, self._records.popleft()[0], [], deid)
            texts.append(utterance.text)
            if len(texts) == self._records[0][1]:
                count += self._write(stream, self._records.popleft()[0], texts, deid)
                texts = []
        while self._records:
            count += self._write(stream, self._records.popleft()[0], [], deid)
        return count

    def _write(
        self, stream: BinaryIO, record: dict[str, Any], texts: list[str], deid: Deidentifier
    ) -> int:
        for (holder, key, _), text in zip(
            list(_places(record, "", self._texts)), texts, strict=True
        ):
            holder[key] = text
        out = self._kept(record, "", deid)
        stream.write(f"{dump_object(out)}\n".encode())
        return 1

    def _kept(self, value: Any, path: str, deid: Deidentifier) -> Any:
        """The part of a record that is released."""
        if any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in self._keep):
            return value
        if isinstance(value, dict):
            found = {}
            for key, inside in value.items():
                if not path and key in ("user", "id"):
                    found[key] = deid.released_name(key, _name(value, key))
                    continue
                below = self._kept(inside, f"{path}.{key}" if path else key, deid)
                if below is not _DROPPED:
                    found[key] = below
            return found
        if isinstance(value, list):
            items = [self._kept(item, f"{path}[]", deid) for item in value]
            return [item for item in items if item is not _DROPPED]
        if path in self._texts or value is None:
            return value
        if deid.fields.drop_rest:
            return _DROPPED
        raise InvalidInput(
            f"Expected no fields other than those to keep, got {path!r}: name it if it is text "
            f"(--field {path}), keep it if it is harmless (--keep {path}), or drop the rest "
            "(--drop-rest)."
        )


_DROPPED = object()


def _places(value: Any, path: str, texts: frozenset[str]) -> Iterator[tuple[Any, Any, str]]:
    """Holder, key and text of every text at the paths, in order; nulls and empty texts too."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inside in items:
        below = f"{path}[]" if isinstance(value, list) else f"{path}.{key}" if path else key
        if isinstance(inside, str) and below in texts:
            yield value, key, inside
        elif below in texts and not isinstance(inside, dict | list | None):
            raise InvalidInput(f"Expected text at {below}, got a {type(inside).__name__}.")
        else:
            yield from _places(inside, below, texts)


def _checked(path: str) -> str:
    if not path or ".".join(_STEP.findall(path)) != path:
        raise InvalidInput(f"Expected a path such as turns[].text, got {path!r}.")
    return path


def _name(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int | None):
        raise InvalidInput(f"Expected {key} to be a string, got {type(value).__name__}.")
    return "" if value is None else str(value)
