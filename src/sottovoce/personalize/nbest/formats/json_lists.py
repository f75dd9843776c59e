"""N-best lists as JSON: the canonical JSONL, and HyPoradise."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from sottovoce.corpora.jsonl import dump_object, parse_object
from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.lists import Hypothesis, NBest


def read_canonical(
    path: Path | str, problems: Problems, *, client_column: str = "client"
) -> Iterator[NBest]:
    """Lists in file order; `client_column` is the key of the client's name."""
    with open_bytes(path) as stream:
        for number, line in text_lines(stream, problems, LINE_LIMIT):
            try:
                parsed = from_object(parse_object(line), f"line-{number}", client_column)
            except InvalidInput as problem:
                problems.reject(number, problem)
            else:
                yield parsed


def write_canonical(stream: BinaryIO, lists: Iterable[NBest]) -> None:
    for each in lists:
        stream.write(f"{dump_object(to_object(each))}\n".encode())


def from_object(
    record: dict[str, Any], default_id: str = "utterance", client_column: str = "client"
) -> NBest:
    """Parse one list from its object in the canonical JSONL.

    The object is `{"id","client","order","reference","nbest":[{"text","am","lm","score"}]}`.
    `start` is read if `order` is missing; other keys are ignored.

    >>> from_object({"id": "u1", "nbest": [{"text": "hi", "am": -1}]}).best
    Hypothesis(text='hi', am=-1, lm=None, score=None)
    >>> from_object({"id": "u1", "nbest": "hi"})
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected nbest to be a list, got str.
    """
    nbest = record.get("nbest")
    if not isinstance(nbest, list):
        raise InvalidInput(f"Expected nbest to be a list, got {type(nbest).__name__}.")
    return NBest(
        id=_text(record, "id") or default_id,
        hypotheses=tuple(_hypothesis(item) for item in nbest),
        reference=_text(record, "reference"),
        client=_client(record, client_column),
        order=_number(record, "order" if record.get("order") is not None else "start"),
    )


def to_object(each: NBest) -> dict[str, Any]:
    """The JSON object of one list, without unknown values."""
    head = {
        "id": each.id,
        "client": each.client,
        "order": each.order,
        "reference": each.reference,
    }
    rows = [{"text": h.text, "am": h.am, "lm": h.lm, "score": h.score} for h in each.hypotheses]
    return {
        **{key: value for key, value in head.items() if value is not None},
        "nbest": [{k: v for k, v in row.items() if v is not None} for row in rows],
    }


def _hypothesis(item: object) -> Hypothesis:
    if not isinstance(item, dict):
        raise InvalidInput(f"Expected every hypothesis to be an object, got {item!r:.40}.")
    text = _text(item, "text")
    if text is None:
        raise InvalidInput("Expected a text in every hypothesis, got none.")
    return Hypothesis(text, _number(item, "am"), _number(item, "lm"), _number(item, "score"))


def _client(record: dict[str, Any], column: str) -> str | None:
    if column != "client" and column not in record:
        raise InvalidInput(f"Expected the column {column} with the client, got none.")
    value = record.get(column)
    # Numbers name clients as well as texts do.
    return str(value) if isinstance(value, int | float) else _text(record, column)


def _text(record: dict[str, Any], key: str) -> str | None:
    value = record.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"Expected {key} to be text, got {value!r:.40}.")
    return value


def _number(record: dict[str, Any], key: str) -> float | None:
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"Expected {key} to be a number, got {value!r:.40}.")
    return value


def read_hyporadise(path: Path | str, problems: Problems) -> Iterator[NBest]:
    """Lists named `utterance-1` and so on, without scores.

    The file is one JSON list of `{"input": [hypothesis, ...], "output": reference}`.
    """
    problems.unit = "entry"
    with open_bytes(path) as stream:
        try:
            entries = json.loads(stream.read())
        except (ValueError, RecursionError) as problem:
            raise InvalidInput(f"Expected JSON in {problems.name}, got {problem}.") from problem
    if not isinstance(entries, list):
        raise InvalidInput(f"Expected a list in {problems.name}, got {type(entries).__name__}.")
    for place, entry in enumerate(entries, 1):
        match entry:
            case {"input": list(texts), "output": str(reference)} if all(
                isinstance(text, str) for text in texts
            ):
                hypotheses = tuple(Hypothesis(text) for text in texts)
                yield NBest(f"utterance-{place}", hypotheses, reference, order=place)
            case _:
                problems.reject(
                    place, f"Expected an input (a list of texts) and an output, got {entry!r:.60}."
                )


def write_hyporadise(stream: BinaryIO, lists: Iterable[NBest]) -> None:
    """Write texts and references; the format has no scores."""
    entries = [
        {"input": [h.text for h in each.hypotheses], "output": each.reference or ""}
        for each in lists
    ]
    stream.write(json.dumps(entries, ensure_ascii=False, indent=1).encode() + b"\n")
