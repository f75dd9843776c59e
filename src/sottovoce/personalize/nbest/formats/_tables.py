"""`key value` tables of Kaldi and ESPnet, and helpers shared by several formats."""

import math
from collections.abc import Mapping
from pathlib import Path

from sottovoce.corpora.lines import LINE_LIMIT, Problems, open_bytes, text_lines
from sottovoce.errors import InvalidInput


def read_table(path: str | Path, *, strict: bool = True) -> dict[str, str]:
    """The value of every key; a key alone has an empty value, a repeated key is a bad line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "text").write_text("utt1 call mum\\nutt2\\n")
    ...     read_table(Path(folder, "text"))
    {'utt1': 'call mum', 'utt2': ''}
    """
    return table_of(Path(path), Problems(str(path), strict))


def table_of(path: Path, problems: Problems) -> dict[str, str]:
    if not path.is_file():
        raise InvalidInput(f"Expected a file at {path}, got none.")
    table: dict[str, str] = {}
    with open_bytes(path) as stream:
        for number, line in text_lines(stream, problems, LINE_LIMIT):
            key, value = [*line.split(maxsplit=1), ""][:2]
            if key in table:
                problems.reject(number, f"Expected every key once, got {key!r} again.")
            else:
                table[key] = value.strip()
    return table


def table_text(table: Mapping[str, str]) -> str:
    return "".join(f"{key} {value}".rstrip() + "\n" for key, value in table.items())


def number(text: str) -> float:
    """A finite number, also in the form `tensor(-1.23)` of a printed tensor.

    >>> number("tensor(-1.25)"), number(" 3 ")
    (-1.25, 3.0)
    >>> number("loud")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected a number, got 'loud'.
    """
    inner = text.strip()
    if inner.startswith("tensor(") and inner.endswith(")"):
        # tensor(-1.23, device='cuda:0') as well.
        inner = inner[7:-1].split(",")[0]
    try:
        value = float(inner)
    except ValueError as problem:
        raise InvalidInput(f"Expected a number, got {text!r}.") from problem
    if not math.isfinite(value):
        raise InvalidInput(f"Expected a finite number, got {text!r}.")
    return value


def key_like(utterance: str) -> str:
    """An id without spaces, usable as a key."""
    if len(utterance.split()) != 1:
        raise InvalidInput(f"Expected an id without spaces, got {utterance!r}.")
    return utterance


def known(value: float | None, name: str, utterance: str) -> float:
    """A score that the format requires."""
    if value is None:
        raise InvalidInput(f"Expected a {name} for every hypothesis of {utterance!r}, got none.")
    return value
