"""Conversion between JSON objects and utterances; every format uses it.

Tokens form: `{"tokens", "slots", "intent", "user", "id", "text"}`, where `text` is written only if
it differs from the tokens joined by spaces. Spans form: `{"text", "entities": [{"start", "end",
"type"}], ...}`, with `tokens` only if splitting the text would give different ones.

On reading, missing slots default to "O"; the text of a record with neither tokens nor text is its
`reference`; without `user`, `speaker` or `client` is the user, unless it names a role (see
`records.is_role`). Those keys, and all others, are kept in `extra` and written back.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard

from sottovoce.corpora.lines import Problems
from sottovoce.corpora.published import from_massive, from_slurp, is_massive, is_slurp
from sottovoce.corpora.records import OUTSIDE, Blank, Utterance, check_bio, is_role, repair_bio
from sottovoce.corpora.spans import Span, from_spans, spans_of, token_offsets
from sottovoce.errors import InvalidInput

KEYS = ("tokens", "slots", "intent", "user", "id", "text")
USER_KEYS = ("speaker", "client")
TEXT_KEYS = ("text", "reference")

_FIELDS = frozenset(KEYS)
_SPAN_KEYS = {"start", "end", "type"}
_PLURALS: dict[type, str] = {
    type(None): "nulls",
    bool: "booleans",
    int: "numbers",
    float: "numbers",
    str: "strings",
    list: "lists",
    dict: "objects",
}


def accept(record: dict[str, Any], problems: Problems) -> Utterance:
    """Read one object; MASSIVE and SLURP records are supported.

    In lenient mode, labels in the older IOB1 convention are repaired.
    """
    if is_massive(record):
        record = from_massive(record)
    elif is_slurp(record):
        record = from_slurp(record)
    if problems.keep_empty and _is_empty(record):
        return _empty(record)
    slots = record.get("slots")
    if problems.strict or not _is_texts(slots):
        return from_object(record)
    repaired = list(repair_bio(tuple(slots)))
    utterance = from_object(record | {"slots": repaired})
    problems.repaired += repaired != slots
    return utterance


def _is_empty(record: Mapping[str, Any]) -> bool:
    text = record.get("text")
    blank = text is None or (isinstance(text, str) and not text.strip())
    return blank and "text" in record and not record.get("tokens")


def _empty(record: Mapping[str, Any]) -> Utterance:
    return Blank(
        text=record.get("text") or "",
        intent=_name(record, "intent"),
        user=_user(record),
        id=_name(record, "id"),
        extra={key: value for key, value in record.items() if key not in (*KEYS, "entities")},
    )


def from_object(record: Mapping[str, Any]) -> Utterance:
    """Read one object in tokens form, in spans form, or with text only.

    >>> from_object({"tokens": ["call", "mum"], "intent": "call", "speaker": "u7"}).user
    'u7'
    >>> from_object({"text": "call mum", "entities": [{"start": 5, "end": 8, "type": "who"}]}).slots
    ('O', 'B-who')
    >>> from_object({"words": ["call"]})
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected tokens, text or reference, got the keys words.
    """
    tokens = record.get("tokens")
    if tokens is not None:
        if not _is_texts(tokens):
            raise InvalidInput(f"Expected tokens to be a list of strings, got {json_type(tokens)}.")
        check_tokens(tuple(tokens))
    text = _text(record, tokens)
    if tokens is None and (not text or text.isspace()):
        raise InvalidInput("Expected an utterance with at least one token, got none.")
    intent, user, id = _name(record, "intent"), _user(record), _name(record, "id")
    extra = {key: value for key, value in record.items() if key not in _FIELDS}
    slots = record.get("slots")
    if slots is None and record.get("entities") is not None:
        spans = _spans(extra.pop("entities"))
        return from_spans(text, spans, tokens=tokens, intent=intent, user=user, id=id, extra=extra)
    words = text.split() if tokens is None else tokens
    if slots is None:
        slots = [OUTSIDE] * len(words)
    elif not _is_texts(slots):
        raise InvalidInput(f"Expected slots to be a list of strings, got {json_type(slots)}.")
    utterance = Utterance(
        tokens=tuple(words),
        slots=tuple(slots),
        text=text,
        intent=intent,
        user=user,
        id=id,
        extra=extra,
    )
    check_bio(utterance.slots)
    if tokens is not None and text != " ".join(tokens):
        token_offsets(text, tokens)
    return utterance


def to_object(utterance: Utterance, *, spans: bool = False) -> dict[str, Any]:
    """The inverse of `from_object`.

    >>> u = from_spans("call mum!", [Span(5, 8, "who")], id="7")
    >>> to_object(u)
    {'tokens': ['call', 'mum', '!'], 'slots': ['O', 'B-who', 'O'], 'intent': '', 'id': '7',
     'text': 'call mum!'}
    >>> to_object(u, spans=True)
    {'text': 'call mum!', 'entities': [{'start': 5, 'end': 8, 'type': 'who'}], 'id': '7'}
    """
    if not isinstance(utterance, Blank):
        check_tokens(utterance.tokens)
    record = _spans_form(utterance) if spans else _tokens_form(utterance)
    # An empty user is written if a reader would otherwise take one from another key.
    if utterance.user or _user(utterance.extra):
        record["user"] = utterance.user
    if utterance.id:
        record["id"] = utterance.id
    if not spans and utterance.text != " ".join(utterance.tokens):
        token_offsets(utterance.text, utterance.tokens)
        record["text"] = utterance.text
    if taken := [key for key in utterance.extra if key in KEYS or key in record]:
        raise InvalidInput(
            f"Expected extra keys that are not fields of an utterance, got {taken[0]!r}: rename it."
        )
    return {**record, **utterance.extra}


def check_tokens(tokens: tuple[str, ...]) -> None:
    """Refuse an empty list, empty tokens, and tokens with leading or trailing white space.

    >>> check_tokens(("call", " mum"))
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected tokens without white space around them, got white space
    around token 1.
    """
    if not tokens:
        raise InvalidInput("Expected an utterance with at least one token, got none.")
    # Fast path: splitting returns the same tokens if none of them contains white space.
    if " ".join(tokens).split() != list(tokens):
        for position, token in enumerate(tokens):
            if not token or token != token.strip():
                found = "white space around" if token else "an empty string as"
                raise InvalidInput(
                    "Expected tokens without white space around them, got "
                    f"{found} token {position}."
                )


def _tokens_form(utterance: Utterance) -> dict[str, Any]:
    check_bio(utterance.slots)
    return {
        "tokens": list(utterance.tokens),
        "slots": list(utterance.slots),
        "intent": utterance.intent,
    }


def _spans_form(utterance: Utterance) -> dict[str, Any]:
    spans = spans_of(utterance)
    record: dict[str, Any] = {"text": utterance.text}
    if spans:
        record["entities"] = [span._asdict() for span in spans]
    words = utterance.text.split() if not spans else from_spans(utterance.text, spans).tokens
    if tuple(words) != utterance.tokens:
        record["tokens"] = list(utterance.tokens)
    if utterance.intent:
        record["intent"] = utterance.intent
    return record


def _text(record: Mapping[str, Any], tokens: list[str] | None) -> str:
    for key in TEXT_KEYS if tokens is None else ("text",):
        if record.get(key) is not None:
            text = record[key]
            if not isinstance(text, str):
                raise InvalidInput(f"Expected {key} to be a string, got {json_type(text)}.")
            return text
    if tokens is None:
        raise InvalidInput(
            f"Expected tokens, text or reference, got the keys {', '.join(record) or '(none)'}."
        )
    return " ".join(tokens)


def _name(record: Mapping[str, Any], key: str) -> str:
    """A string, or an integer as its digits; null counts as absent."""
    value = record.get(key)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise InvalidInput(f"Expected {key} to be a string, got {json_type(value)}.")


def _user(record: Mapping[str, Any]) -> str:
    if record.get("user") is not None:
        return _name(record, "user")
    named = (record[key] for key in USER_KEYS if isinstance(record.get(key), str))
    return next((name for name in named if not is_role(name)), "")


def _spans(entities: object) -> list[Span]:
    if not isinstance(entities, list):
        raise InvalidInput(f"Expected entities to be a list, got {json_type(entities)}.")
    spans: list[Span] = []
    for entity in entities:
        if not isinstance(entity, dict):
            raise InvalidInput(f"Expected entities to be objects, got {json_type(entity)}.")
        if entity.keys() != _SPAN_KEYS:
            raise InvalidInput(
                "Expected entities with exactly the keys start, end and type, got the keys "
                f"{', '.join(map(str, entity)) or '(none)'}."
            )
        span = Span(**entity)
        if type(span.start) is not int or type(span.end) is not int or type(span.type) is not str:
            raise InvalidInput(
                "Expected integers as start and end and a string as type, got "
                f"{', '.join(map(json_type, span))}."
            )
        spans.append(span)
    return spans


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and {*map(type, value)} <= {str}


def json_type(value: object) -> str:
    """The type of a JSON value, for errors that must not quote it.

    >>> json_type(7), json_type(["call", 7]), json_type(None)
    ('a number', 'a list of strings and numbers', 'null')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            inside = dict.fromkeys(_PLURALS.get(type(item), "other values") for item in value)
            return f"a list of {' and '.join(inside)}" if inside else "an empty list"
        case dict():
            return "an object"
        case _:
            return type(value).__name__
