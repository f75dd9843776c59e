"""CSV and TSV with a header, according to RFC 4180.

A row may span lines, so a line over the limit cannot be skipped safely: it is an error even in
lenient mode. An unclosed quote rejects everything after it, as one row.
"""

import csv
import io
from collections.abc import Callable, Iterator
from typing import BinaryIO

from sottovoce.corpora.columns import FIELDS, Columns, cell_of
from sottovoce.corpora.lines import Problems, byte_lines, check_characters
from sottovoce.corpora.objects import accept
from sottovoce.corpora.records import Utterance
from sottovoce.errors import InvalidInput


def read_delimited(
    stream: BinaryIO, problems: Problems, limit: int, columns: Columns, delimiter: str
) -> Iterator[Utterance]:
    """Utterances of a table's rows, one at a time."""
    lines = _Lines(stream, problems.name, limit)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        first_line = lines.number + 1
        try:
            row = next(rows)
            _check_cells(row)
            if header is None:
                columns.check(row)
                header = row
            elif not row:
                problems.blank += 1
            else:
                yield accept(columns.record(_named(header, row)), problems)
        except StopIteration:
            return
        except (csv.Error, InvalidInput) as problem:
            reason = f"Expected CSV, got {problem}." if isinstance(problem, csv.Error) else problem
            if header is None or lines.broken:
                raise InvalidInput(f"{problems.name}, line {first_line}: {reason}") from problem
            problems.reject(first_line, reason)


def delimited_header(columns: Columns, delimiter: str) -> bytes:
    """The header of a table whose rows `delimited_row` writes."""
    return _line([columns.name_of(field) for field in FIELDS], delimiter)


def delimited_row(columns: Columns, delimiter: str) -> Callable[[Utterance], bytes]:
    """An encoder of utterances as rows; tokens are written only if they differ from text.split().

    >>> delimited_row(Columns(), ",")(Utterance(tokens=("call", "mum"), slots=("O", "B-who")))
    b',,,call mum,,O B-who,\\r\\n'
    """

    def encode(utterance: Utterance) -> bytes:
        row = columns.row(utterance)
        row[columns.name_of("slots")] = cell_of(utterance.slots)
        plain = list(utterance.tokens) == utterance.text.split()
        row[columns.name_of("tokens")] = "" if plain else cell_of(utterance.tokens)
        for cell in row.values():
            check_characters(cell)
        return _line(list(row.values()), delimiter)

    return encode


class _Lines:
    """Decoded lines, and the number of the last one; invalid bytes are reported later, per row."""

    def __init__(self, stream: BinaryIO, name: str, limit: int) -> None:
        self.number = 0
        self.broken = False
        self._limit = limit
        self._lines = byte_lines(stream, name, limit)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.broken = True
        number, raw = next(self._lines)
        if raw is None:
            raise InvalidInput(
                f"Expected at most {self._limit} bytes in a line, got more: shorten the line, or "
                "raise the limit."
            )
        self.number = number
        self.broken = False
        return raw.decode(errors="surrogateescape")


def _check_cells(row: list[str]) -> None:
    for cell in row:
        if not cell.isascii() or "\0" in cell:
            for character in cell:
                if "\udc80" <= character <= "\udcff":
                    raise InvalidInput(
                        f"Expected UTF-8 text, got the byte 0x{ord(character) - 0xDC00:02x}."
                    )
            check_characters(cell)


def _named(header: list[str], row: list[str]) -> dict[str, str]:
    if len(row) != len(header):
        raise InvalidInput(f"Expected {len(header)} cells, as in the header, got {len(row)}.")
    return dict(zip(header, row, strict=True))


def _line(cells: list[str], delimiter: str) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerow(cells)
    return text.getvalue().encode()
