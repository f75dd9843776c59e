"""Read and write corpus files; the format is given by name or by the suffix of the file.

`read` returns a `Reader`, which can be iterated repeatedly and counts rejected records. `write` is
atomic (see `sottovoce.io.atomic`).
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from sottovoce import _validate
from sottovoce._registry import Registry
from sottovoce.corpora.conll import conll_block, read_conll
from sottovoce.corpora.jsonl import (
    jsonl_line,
    parse_object,
    plain_line,
    read_jsonl,
    read_plain,
    spans_line,
)
from sottovoce.corpora.lines import (
    LINE_LIMIT,
    REASONS_KEPT,
    STANDARD_STREAM,
    LiveLines,
    Problem,
    Problems,
    name_of,
    open_bytes,
    write_each,
)
from sottovoce.corpora.rasa import SUFFIXES as RASA_SUFFIXES
from sottovoce.corpora.rasa import read_rasa
from sottovoce.corpora.records import Utterance
from sottovoce.corpora.tables import (
    Columns,
    delimited_header,
    delimited_row,
    read_delimited,
    read_parquet,
    write_parquet,
)
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of a format's reader."""

    line_limit: int = LINE_LIMIT
    columns: Columns = field(default_factory=Columns)


@dataclass(frozen=True, kw_only=True)
class Format:
    """How a format is read and written, and its file suffixes.

    `read` passes bad records to `Problems.reject`; `write` returns the number of utterances. A
    `table` has columns with configurable names.
    """

    read: Callable[[BinaryIO, Problems, ReadOptions], Iterator[Utterance]]
    write: Callable[[BinaryIO, Iterable[Utterance], Columns], int]
    suffixes: tuple[str, ...] = ()
    table: bool = False


def _lines(
    read: Callable[[BinaryIO, Problems, int], Iterator[Utterance]],
    encode: Callable[[Utterance], bytes],
    *suffixes: str,
) -> Format:
    """A format in which records are written one after another."""
    return Format(
        read=lambda stream, found, options: read(stream, found, options.line_limit),
        write=lambda stream, utterances, columns: write_each(stream, utterances, encode),
        suffixes=suffixes,
    )


def _delimited(delimiter: str, *suffixes: str) -> Format:
    def write(stream: BinaryIO, utterances: Iterable[Utterance], columns: Columns) -> int:
        stream.write(delimited_header(columns, delimiter))
        return write_each(stream, utterances, delimited_row(columns, delimiter))

    return Format(
        read=lambda stream, found, options: read_delimited(
            stream, found, options.line_limit, options.columns, delimiter
        ),
        write=write,
        suffixes=suffixes,
        table=True,
    )


def _only_read(*_: object) -> int:
    raise InvalidInput("Expected a writable format, got rasa, which is read-only.")


def _register_suffixes(name: str, format: Format) -> None:
    if not isinstance(format, Format):
        raise InvalidInput(f"Expected a Format for {name}, got {format!r}.")
    for suffix in format.suffixes:
        owner = SUFFIXES.get(suffix, name)
        if not suffix.startswith(".") or (owner != name and owner in FORMATS):
            raise InvalidInput(
                f"Expected a suffix such as .abc that no other format uses, got {suffix!r}."
            )
    for suffix in [suffix for suffix, owner in SUFFIXES.items() if owner == name]:
        del SUFFIXES[suffix]
    SUFFIXES.update(dict.fromkeys(format.suffixes, name))


_BUILT_IN = {
    "jsonl": _lines(read_jsonl, jsonl_line, ".jsonl", ".ndjson"),
    "spans": _lines(read_jsonl, spans_line),
    "conll": _lines(read_conll, conll_block, ".conll", ".bio", ".iob"),
    "text": _lines(read_plain, plain_line, ".txt"),
    "csv": _delimited(",", ".csv"),
    "tsv": _delimited("\t", ".tsv"),
    "parquet": Format(
        read=lambda stream, found, options: read_parquet(stream, found, options.columns),
        write=write_parquet,
        suffixes=(".parquet",),
        table=True,
    ),
    "rasa": Format(
        read=lambda stream, found, options: read_rasa(stream, found, options.line_limit),
        write=_only_read,
    ),
}
FORMATS: Registry[Format] = Registry(
    "format", _BUILT_IN, group="sottovoce.corpus_formats", check=_register_suffixes
)
TABLES = tuple(name for name, format in _BUILT_IN.items() if format.table)
_COLUMN = re.compile(r"[\w.-]{1,64}")
SUFFIXES = {suffix: name for name, format in _BUILT_IN.items() for suffix in format.suffixes}


def format_of(path: str | Path) -> str:
    """The format of a file by its suffix, with or without `.gz`; `-` is JSONL.

    >>> format_of("calls.conll.gz"), format_of("-")
    ('conll', 'jsonl')
    >>> format_of("calls.doc")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected a name that ends in .jsonl, ...got 'calls.doc': name the
    format.
    """
    if str(path) == STANDARD_STREAM:
        return "jsonl"
    name = Path(path).name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    # Not in SUFFIXES, which is used to search folders: most .yml and .md files are not corpora.
    if suffix in RASA_SUFFIXES:
        return "rasa"
    if SUFFIXES.get(suffix) not in FORMATS:
        known = [each for each, owner in SUFFIXES.items() if owner in FORMATS]
        raise InvalidInput(
            f"Expected a name that ends in {', '.join(known)} (or these with .gz), "
            f"got {Path(path).name!r}: name the format."
        )
    return SUFFIXES[suffix]


class Reader:
    """The utterances of one file. Each iteration reopens the file and resets the counts.

    `rejected` and `repaired` count the records that a lenient pass skipped or repaired, `blank` the
    blank lines, and `problems` lists the first errors with their line numbers.
    """

    def __init__(
        self,
        path: str | Path,
        format: str,
        *,
        strict: bool = True,
        columns: Columns | None = None,
        line_limit: int = LINE_LIMIT,
        live: LiveLines | None = None,
        before: int = 0,
        keep_empty: bool = False,
    ) -> None:
        self._before, self._keep_empty = before, keep_empty
        self.live = live or (LiveLines(sys.stdin.buffer) if str(path) == STANDARD_STREAM else None)
        self._stream: BinaryIO | None = None
        self.path = path
        self.format = format
        self.strict = strict
        self.columns = _columns_for(format, columns)
        self.line_limit = _validate.at_least_one("line_limit", line_limit)
        self._found = Problems(name_of(path), strict)
        if str(path) != STANDARD_STREAM and not Path(path).exists():
            raise InvalidInput(f"Expected a file at {path}, found nothing there.")
        if Path(path).is_dir():
            raise InvalidInput(f"Expected a file, got the folder {path}: name a file in it.")

    @property
    def rejected(self) -> int:
        return self._found.rejected

    @property
    def repaired(self) -> int:
        return self._found.repaired

    @property
    def blank(self) -> int:
        return self._found.blank

    @property
    def problems(self) -> list[Problem]:
        return list(self._found.first)

    def losses(self) -> dict[str, Any]:
        """What the last pass rejected, repaired and skipped."""
        return {
            "rejected": self.rejected,
            "repaired": self.repaired,
            "blank": self.blank,
            "problems": [list(problem) for problem in self.problems],
        }

    def add_losses(self, losses: dict[str, Any]) -> None:
        """Add those of another reader of the same file."""
        self._found.rejected += losses["rejected"]
        self._found.repaired += losses["repaired"]
        self._found.blank += losses["blank"]
        left = REASONS_KEPT - len(self._found.first)
        self._found.first += [Problem(*problem) for problem in losses["problems"][:left]]

    @property
    def waits(self) -> bool:
        """Whether the next utterance has not arrived yet, on standard input."""
        return self.live is not None and not self.live.has_line()

    @property
    def fraction(self) -> float | None:
        """The share of the file that has been read, if its size is known."""
        if self.live is not None or self._stream is None or self.format == "parquet":
            return None
        file = getattr(self._stream, "raw", self._stream)  # of gzip: the compressed file
        file = getattr(file, "fileobj", file)
        size = Path(self.path).stat().st_size
        return min(1.0, file.tell() / size) if size else None

    def part(self, stream: BinaryIO, size: int, before: int) -> "Reader":
        """A reader of the next `size` bytes of the opened file, after `before` lines."""
        return Reader(
            self.path,
            self.format,
            strict=self.strict,
            columns=self.columns,
            line_limit=self.line_limit,
            live=LiveLines(stream, size),
            before=before,
            keep_empty=self._keep_empty,
        )

    def first_record(self) -> dict[str, Any]:
        """The first record of a JSONL file, which stays to be read; empty for other formats."""
        if self.format != "jsonl":
            return {}
        if self.live is not None:
            line = self.live.first_line()
        else:
            with open_bytes(self.path) as stream:
                line = stream.readline(self.line_limit)
        try:
            return parse_object(line.decode("utf-8-sig"))
        except (InvalidInput, UnicodeDecodeError):
            return {}

    def __iter__(self) -> Iterator[Utterance]:
        self._found = found = Problems(
            name_of(self.path), self.strict, before=self._before, keep_empty=self._keep_empty
        )
        empty = True
        with open_bytes(self.path, self.live) as stream:
            self._stream = stream
            try:
                for utterance in self._utterances(stream, found):
                    empty = False
                    yield utterance
            finally:
                self._stream = None
        if empty:
            why = f": all {found.rejected} records were rejected" if found.rejected else ""
            first = f"; the first error: {found.first[0].reason}" if found.first else "."
            raise InvalidInput(f"Expected utterances in {found.name}, found none{why}{first}")

    def _utterances(self, stream: BinaryIO, found: Problems) -> Iterator[Utterance]:
        options = ReadOptions(line_limit=self.line_limit, columns=self.columns)
        return FORMATS.get(self.format).read(stream, found, options)


def recognise(path: str | Path, columns: Columns | None = None) -> "tuple[str, LiveLines | None]":
    """The format by the suffix, or else by the first line; for `-`, also the opened stream.

    A JSON object is JSONL, a header with a column of texts is CSV or TSV, the rest is plain text.
    """
    if str(path) != STANDARD_STREAM:
        try:
            return format_of(path), None
        except InvalidInput:
            if not Path(path).is_file():
                raise
        with open_bytes(path) as stream:
            return _format_of_line(LiveLines(stream).first_line(), columns or Columns()), None
    live = LiveLines(sys.stdin.buffer)
    return _format_of_line(live.first_line(), columns or Columns()), live


def _format_of_line(raw: bytes, columns: Columns) -> str:
    line = raw.decode("utf-8-sig", errors="replace").strip()
    if line.startswith("{") and line.endswith("}"):
        return "jsonl"
    for name, delimiter in (("csv", ","), ("tsv", "\t")):
        cells = [cell.strip('"') for cell in line.split(delimiter)]
        texts = {columns.name_of("text"), columns.name_of("tokens")}
        if len(cells) > 1 and texts & {*cells} and all(_COLUMN.fullmatch(cell) for cell in cells):
            return name
    return "text"


def read(
    path: str | Path,
    format: str | None = None,
    *,
    on_error: Literal["strict", "lenient"] = "strict",
    columns: Columns | None = None,
    line_limit: int = LINE_LIMIT,
    live: LiveLines | None = None,
    keep_empty: bool = False,
) -> Reader:
    """Open a corpus. Strict mode stops at the first bad record; lenient mode skips and counts them.

    `live` is standard input, if it has been opened already (see `recognise`). With `keep_empty`,
    records without text are utterances without tokens; otherwise they are bad records.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "calls.txt").write_text("call mum\\nhang up\\n")
    ...     [u.tokens for u in read(Path(folder, "calls.txt"))]
    [('call', 'mum'), ('hang', 'up')]
    """
    _validate.one_of("on_error", on_error, ("strict", "lenient"))
    return Reader(
        path,
        _format(path, format),
        strict=on_error == "strict",
        columns=columns,
        line_limit=line_limit,
        live=live,
        keep_empty=keep_empty,
    )


def write(
    path: str | Path,
    utterances: Iterable[Utterance],
    format: str | None = None,
    *,
    columns: Columns | None = None,
) -> int:
    """Write a corpus atomically, and return the number of utterances.

    >>> import tempfile
    >>> call = Utterance(tokens=("call", "mum"), slots=("O", "B-who"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write(Path(folder, "calls.jsonl.gz"), [call])
    ...     written, list(read(Path(folder, "calls.jsonl.gz"))) == [call]
    (1, True)
    """
    chosen = _format(path, format)
    where = _columns_for(chosen, columns)
    with output(path) as stream:
        return FORMATS.get(chosen).write(stream, utterances, where)


def _format(path: str | Path, named: str | None) -> str:
    chosen = format_of(path) if named is None else FORMATS.require(named)
    if chosen == "parquet" and Path(path).suffix.lower() == ".gz":
        raise InvalidInput(f"Expected Parquet without .gz, since it compresses itself, got {path}.")
    return chosen


def _columns_for(format: str, columns: Columns | None) -> Columns:
    if columns is not None and columns != Columns() and not FORMATS.get(format).table:
        raise InvalidInput(
            f"Expected column names only for {', '.join(TABLES)}, got them for {format}."
        )
    return Columns() if columns is None else columns
