"""Formats with one utterance per line: JSON Lines, the canonical one, and plain text."""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from sottovoce.corpora.lines import Problems, check_characters, refuse_bom, text_lines
from sottovoce.corpora.objects import accept, json_type, to_object
from sottovoce.corpora.records import OUTSIDE, Blank, Utterance
from sottovoce.errors import InvalidInput


def read_jsonl(stream: BinaryIO, problems: Problems, limit: int) -> Iterator[Utterance]:
    """Utterances of a stream of JSON Lines, one at a time.

    Every line is one object (see `objects` for its keys).
    """
    for number, line in text_lines(stream, problems, limit):
        try:
            utterance = accept(parse_object(line), problems)
        except InvalidInput as problem:
            problems.reject(number, problem)
        else:
            yield utterance


def jsonl_line(utterance: Utterance) -> bytes:
    """One utterance as a JSON line in tokens form.

    >>> jsonl_line(Utterance(tokens=("call",), slots=("O",), intent="call"))
    b'{"tokens": ["call"], "slots": ["O"], "intent": "call"}\\n'
    """
    return f"{dump_object(to_object(utterance))}\n".encode()


def spans_line(utterance: Utterance) -> bytes:
    """One utterance as a JSON line in spans form.

    >>> spans_line(Utterance(tokens=("mum",), slots=("B-who",)))
    b'{"text": "mum", "entities": [{"start": 0, "end": 3, "type": "who"}]}\\n'
    """
    return f"{dump_object(to_object(utterance, spans=True))}\n".encode()


def parse_object(line: str) -> dict[str, Any]:
    """Read one JSON object; duplicate keys, NaN, lone surrogates and NUL characters are refused.

    >>> parse_object('{"id": 1, "id": 2}')
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected every key once, got 'id' twice.
    """
    try:
        record = _DECODER.decode(line)
    except InvalidInput:
        raise
    except json.JSONDecodeError as problem:
        raise InvalidInput(
            f"Expected a JSON object, got {problem.msg} at column {problem.colno}."
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"Expected a JSON object, got {problem}.") from problem
    if not isinstance(record, dict):
        raise InvalidInput(f"Expected a JSON object, got {json_type(record)}.")
    if "\\u" in line:
        _check_strings(record)
    return record


def dump_object(record: dict[str, Any]) -> str:
    """One object as JSON text, with non-ASCII characters as they are."""
    try:
        text = _ENCODER.encode(record)
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidInput(f"Expected values that JSON supports, got {problem}.") from problem
    if not text.isascii() or "\\u0000" in text:
        _check_strings(record)
    return text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidInput(f"Expected every key once, got {twice!r} twice.")
    return record


def _no_constant(name: str) -> object:
    raise InvalidInput(f"Expected a JSON object, got {name}, which is not JSON.")


def _check_strings(value: object) -> None:
    """Refuse characters that JSON escapes can contain but a UTF-8 file cannot."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_strings(key)
            _check_strings(item)
    elif isinstance(value, list):
        for item in value:
            _check_strings(item)
    elif isinstance(value, str):
        check_characters(value)


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def read_plain(stream: BinaryIO, problems: Problems, limit: int) -> Iterator[Utterance]:
    """Utterances of a stream of plain text, one at a time.

    Lines are split at white space and all tokens labelled "O"; blank lines are skipped and counted.
    """
    for _, line in text_lines(stream, problems, limit, blank=problems.keep_empty):
        tokens = tuple(line.split())
        if tokens:
            yield Utterance(tokens=tokens, slots=(OUTSIDE,) * len(tokens), text=line)
        else:
            yield Blank(text=line)


def plain_line(utterance: Utterance) -> bytes:
    """The text of one utterance as a line.

    Labels, intents and users are lost; they need another format.

    >>> plain_line(Utterance(tokens=("call", "mum"), slots=("O", "B-who")))
    b'call mum\\n'
    """
    text = utterance.text
    if not (text.strip() or isinstance(utterance, Blank)) or "\n" in text or text.endswith("\r"):
        raise InvalidInput(
            f"Expected a text on one line that is not blank, got {_problem(text)}: write JSONL "
            "instead."
        )
    check_characters(text)
    refuse_bom(text)
    return f"{text}\n".encode()


def _problem(text: str) -> str:
    return "line breaks" if text.strip() else "a blank text"
