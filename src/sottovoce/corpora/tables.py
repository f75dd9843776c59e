"""Tables of utterances, with configurable column names: CSV, TSV and Parquet."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from sottovoce.corpora.jsonl import dump_object, parse_object
from sottovoce.corpora.lines import Problems, byte_lines, check_characters
from sottovoce.corpora.objects import KEYS, accept, to_object
from sottovoce.corpora.records import Blank, Utterance
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

FIELDS = ("id", "user", "intent", "text", "tokens", "slots", "extra")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which column holds which field. A column named here must exist; the others may be absent.

    Other columns are kept in `extra`; on writing, `extra` is one JSON object in its own column. In
    text cells, tokens and labels are separated by spaces or written as a JSON list.

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
        has_text = self.name_of("text") in record
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
        if has_text and not {"text", "tokens", "reference"} & {*record}:
            record["text"] = None
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


def read_delimited(
    stream: BinaryIO, problems: Problems, limit: int, columns: Columns, delimiter: str
) -> Iterator[Utterance]:
    """Utterances of the rows of a CSV or TSV file, one at a time.

    The table has a header and follows RFC 4180. A row may span lines, so a line over the limit
    cannot be skipped safely: it is an error even in lenient mode. An unclosed quote rejects
    everything after it, as one row.
    """
    lines = _Lines(stream, problems.name, limit)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        first_line = lines.number + 1
        try:
            row = [_unescaped(cell) for cell in next(rows)]
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

    Cells that a spreadsheet would run as a formula are written behind an apostrophe, which is
    removed on reading.

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
    csv.writer(text, delimiter=delimiter).writerow([_escaped(cell) for cell in cells])
    return text.getvalue().encode()


# A spreadsheet runs a cell that starts like this as a formula; numbers are harmless.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def _escaped(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula; `_unescaped` is the inverse.

    >>> [_escaped(cell) for cell in ("=1+1", "'=1", "-5", "call mum")]
    ["'=1+1", "''=1", '-5', 'call mum']
    """
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def _unescaped(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


ROWS_IN_BATCH = 4096


def read_parquet(stream: BinaryIO, problems: Problems, columns: Columns) -> Iterator[Utterance]:
    """Utterances of the rows of a Parquet file, read in batches.

    Names are strings, tokens and slots lists of strings. Other columns are kept in `extra` as JSON,
    so Arrow types that JSON lacks (times, decimals) are read as text and NaN as null. pyarrow is
    imported only when a Parquet file is read or written.
    """
    problems.unit = "row"
    number = 0
    for batch in _batches(stream, problems.name, columns):
        for row in batch:
            number += 1
            try:
                utterance = accept(columns.record(row), problems)
            except InvalidInput as problem:
                problems.reject(number, problem)
            else:
                yield utterance


def write_parquet(stream: BinaryIO, utterances: Iterable[Utterance], columns: Columns) -> int:
    """Write one row per utterance; return their number."""
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {"tokens": pa.list_(pa.string()), "slots": pa.list_(pa.string())}
    schema = pa.schema([(columns.name_of(f), kinds.get(f, pa.string())) for f in FIELDS])
    source = iter(utterances)
    count = 0
    with parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        while batch := list(islice(source, ROWS_IN_BATCH)):
            rows = [_row(columns, u, number) for number, u in enumerate(batch, count + 1)]
            writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=schema))
            count += len(batch)
    return count


def _row(columns: Columns, utterance: Utterance, number: int) -> dict[str, Any]:
    try:
        row = columns.row(utterance)
        for cell in row.values():
            check_characters(cell if isinstance(cell, str) else "".join(cell))
        if isinstance(utterance, Blank) and not utterance.text:
            row[columns.name_of("text")] = None
    except InvalidInput as problem:
        raise InvalidInput(f"Cannot write utterance {number}: {problem}") from problem
    return row


def _batches(stream: BinaryIO, name: str, columns: Columns) -> Iterator[list[dict[str, Any]]]:
    import pyarrow as pa
    from pyarrow import parquet

    if not stream.seekable():
        raise InvalidInput(f"{name}: Expected a file, got a pipe: Parquet needs random access.")
    try:
        schema = parquet.read_schema(stream)
        stream.seek(0)
        texts = [each.name for each in schema if pa.types.is_string(each.type)]
        # A dictionary stays one: a file of a few kilobytes can repeat a long text a million times.
        file = parquet.ParquetFile(stream, read_dictionary=texts)
        _check_sizes(file.metadata)
        columns.check(file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=ROWS_IN_BATCH):
            names = batch.schema.names
            _check_batch(batch)
            cells = [_values(column, names[i]) for i, column in enumerate(batch.columns)]
            yield [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]
    except InvalidInput as problem:
        raise InvalidInput(f"{name}: {problem}") from problem
    except (pa.ArrowException, OSError) as problem:
        raise InvalidInput(f"{name}: Expected a Parquet file, got {problem}.") from problem


_LARGEST_COLUMN = 1 << 31
_LARGEST_BATCH = 1 << 28


def _check_sizes(metadata: Any) -> None:
    """Refuse columns that unpack to more bytes than Arrow can hold at once."""
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            size = metadata.row_group(group).column(column).total_uncompressed_size
            if size > _LARGEST_COLUMN:
                raise InvalidInput(
                    f"Expected columns of at most {_LARGEST_COLUMN:,} bytes in a row group, got "
                    f"{size:,}: write smaller row groups."
                )


def _check_batch(batch: "pa.RecordBatch") -> None:
    """Refuse rows whose text would take far more memory than the file."""
    import pyarrow as pa
    from pyarrow import compute

    size = 0
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            lengths = compute.binary_length(column.dictionary)
            size += compute.sum(lengths.take(column.indices.drop_null())).as_py() or 0
        else:
            size += column.nbytes
    if size > _LARGEST_BATCH:
        raise InvalidInput(
            f"Expected at most {_LARGEST_BATCH:,} bytes in {ROWS_IN_BATCH} rows, got {size:,}."
        )


def _values(column: "pa.Array", name: str) -> list[Any]:
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_binary(column.type) or types.is_large_binary(column.type):
        raise InvalidInput(f"Expected text or numbers in column {name!r}, got bytes: drop it.")
    if types.is_temporal(column.type) or types.is_decimal(column.type):
        column = column.cast(pa.string())
    values: list[Any] = column.to_pylist()
    if types.is_floating(column.type):
        return [None if value != value else value for value in values]
    return values
