"""Rasa training data: YAML (versions 2 and 3) and the older Markdown.

Entities are `[value](name)` or `[value]{"entity": "name", "role": "role"}`; an entity with a role
becomes the slot `name.role`. Synonyms, lookup tables and regular expressions are ignored. The
parser supports this subset of YAML only, so no YAML package is needed. There is no writer, because
the format has no users and ids.
"""

import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from sottovoce.corpora.lines import Problems, text_lines
from sottovoce.corpora.records import Utterance
from sottovoce.corpora.spans import Span, from_spans
from sottovoce.errors import InvalidInput

SUFFIXES = (".yml", ".yaml", ".md")

_HEADING = re.compile(r"##\s*(intent|synonym|regex|lookup)\s*:\s*(.*)")
_ENTRY = re.compile(r"(\s*)-\s+(intent|synonym|regex|lookup)\s*:\s*(.*)")
_EXAMPLES = re.compile(r"(\s*)examples\s*:\s*(\|?)[+-]?\s*")
_EXAMPLE = re.compile(r"(\s*)[-*+]\s+(.*)")
_LONG = re.compile(r"text\s*:\s*(.*)")
_ENTITY = re.compile(r"\[([^\[\]]+)\](?:\(([^()]+)\)|(\{[^{}]*\}))")


def read_rasa(stream: BinaryIO, problems: Problems, limit: int) -> Iterator[Utterance]:
    """Utterances of a stream, one at a time."""
    for number, intent, example in _examples(text_lines(stream, problems, limit)):
        try:
            utterance = from_example(example, intent)
        except InvalidInput as problem:
            problems.reject(number, problem)
        else:
            yield utterance


def from_example(example: str, intent: str) -> Utterance:
    """One example with its entities.

    >>> from_example('fly to [New York]{"entity": "city", "role": "to"}', "book").slots
    ('O', 'O', 'B-city.to', 'I-city.to')
    """
    text, spans, end = "", [], 0
    for found in _ENTITY.finditer(example):
        text += example[end : found.start()]
        value, name, details = found.groups()
        # Older files wrote a synonym after a colon: [NYC](city:New York).
        kind = name.partition(":")[0] if name else _entity(details)
        start = len(text) + len(value) - len(value.lstrip())
        text += value
        spans.append(Span(start, len(text.rstrip()), kind.strip()))
        end = found.end()
    text += example[end:]
    if not text.strip():
        raise InvalidInput("Expected an example with at least one word, got none.")
    return from_spans(text, spans, intent=intent)


def _entity(details: str) -> str:
    try:
        found = json.loads(details)
        name, role = found["entity"], found.get("role")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise InvalidInput(
            'Expected an entity such as {"entity": "city"}, got other JSON in braces.'
        ) from None
    return f"{name}.{role}" if role else str(name)


def _examples(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Line number, intent and text of each example."""
    intent: str | None = None
    block: int | None = None  # indentation of the line `examples:`; 0 under a heading
    literal = False  # examples are a literal block, as in `examples: |`
    pending = False  # the text of an example is on the next line
    for number, line in lines:
        if heading := _HEADING.fullmatch(line.rstrip()):
            intent = heading[2].strip() if heading[1] == "intent" else None
            block, literal = 0, True
            continue
        indent = len(line) - len(line.lstrip())
        entry = _ENTRY.fullmatch(line)
        if entry and (block is None or not literal or indent <= block):
            intent = _scalar(entry[3]) if entry[2] == "intent" else None
            block, pending = None, False
            continue
        if found := _EXAMPLES.fullmatch(line):
            block, literal, pending = len(found[1]), bool(found[2]), False
            continue
        if intent is None or block is None:
            continue
        if pending:
            pending = False
            yield number, intent, line.strip()
            continue
        example = _EXAMPLE.fullmatch(line)
        if example is None:
            if indent < block:
                block = None
            continue
        text = example[2].strip()
        if literal:
            yield number, intent, text
        elif long := _LONG.fullmatch(text):
            pending = long[1].strip() in ("|", "|-", "|+", ">", ">-")
            if not pending:
                yield number, intent, _scalar(long[1])
        else:
            yield number, intent, _scalar(text)


def _scalar(text: str) -> str:
    """A plain or quoted YAML scalar."""
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) >= 2 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    return text
