"""Parquet, read in batches of rows: names as strings, tokens and slots as lists of strings.

Other columns are kept in `extra` as JSON, so Arrow types that JSON lacks (times, decimals) are read
as text and NaN as null. pyarrow is imported only when a Parquet file is read or written.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from sottovoce.corpora.columns import FIELDS, Columns
from sottovoce.corpora.lines import Problems, check_characters
from sottovoce.corpora.objects import accept
from sottovoce.corpora.records import Utterance
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_IN_BATCH = 4096


def read_parquet(stream: BinaryIO, problems: Problems, columns: Columns) -> Iterator[Utterance]:
    """Utterances of a table's rows, one at a time."""
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
    except InvalidInput as problem:
        raise InvalidInput(f"Cannot write utterance {number}: {problem}") from problem
    return row


def _batches(stream: BinaryIO, name: str, columns: Columns) -> Iterator[list[dict[str, Any]]]:
    import pyarrow as pa
    from pyarrow import parquet

    if not stream.seekable():
        raise InvalidInput(f"{name}: Expected a file, got a pipe: Parquet needs random access.")
    try:
        file = parquet.ParquetFile(stream)
        columns.check(file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=ROWS_IN_BATCH):
            names = batch.schema.names
            cells = [_values(column, names[i]) for i, column in enumerate(batch.columns)]
            yield [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]
    except InvalidInput as problem:
        raise InvalidInput(f"{name}: {problem}") from problem
    except (pa.ArrowException, OSError) as problem:
        raise InvalidInput(f"{name}: Expected a Parquet file, got {problem}.") from problem


def _values(column: "pa.Array", name: str) -> list[Any]:
    import pyarrow as pa
    from pyarrow import types

    if types.is_binary(column.type) or types.is_large_binary(column.type):
        raise InvalidInput(f"Expected text or numbers in column {name!r}, got bytes: drop it.")
    if types.is_temporal(column.type) or types.is_decimal(column.type):
        column = column.cast(pa.string())
    values: list[Any] = column.to_pylist()
    if types.is_floating(column.type):
        return [None if value != value else value for value in values]
    return values
