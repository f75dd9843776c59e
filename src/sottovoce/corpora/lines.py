"""Lines of a file, a `.gz` file or standard input: bounded, strict UTF-8, one at a time.

A byte-order mark and Windows newlines are accepted. Invalid UTF-8, NUL bytes and lines over the
limit are rejected, with their line numbers.

Corpora may be private, so errors name the file, the line and keys, but never quote values.
"""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from sottovoce.corpora.records import Utterance
from sottovoce.errors import InvalidInput

REASONS_KEPT = 10


class Problem(NamedTuple):
    """A rejected record: its line or row, and the reason."""

    place: int
    reason: str


@dataclass(slots=True)
class Problems:
    """Counts of the rejected and repaired records of one file, and the first reasons.

    >>> problems = Problems("calls.jsonl", strict=False)
    >>> problems.reject(3, "Expected a JSON object, got a list.")
    >>> problems.rejected, problems.first
    (1, [Problem(place=3, reason='Expected a JSON object, got a list.')])
    >>> Problems("calls.jsonl", strict=True).reject(3, "Expected a JSON object, got a list.")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: calls.jsonl, line 3: Expected a JSON object, got a list. Fix it,
    or read leniently to skip it.
    """

    name: str
    strict: bool
    unit: str = "line"
    before: int = 0
    """Lines before the part of the file that is read."""
    keep_empty: bool = False
    """Whether records without text are read, as utterances without tokens."""
    rejected: int = 0
    repaired: int = 0
    blank: int = 0
    first: list[Problem] = field(default_factory=list)

    def reject(self, place: int, reason: InvalidInput | str) -> None:
        """Reject the record at this line or row: raise if strict, otherwise count it."""
        if self.strict:
            raise InvalidInput(
                f"{self.name}, {self.unit} {self.before + place}: {reason} Fix it, or read "
                "leniently to skip it."
            )
        self.rejected += 1
        if len(self.first) < REASONS_KEPT:
            self.first.append(Problem(self.before + place, str(reason)))


LINE_LIMIT = 1 << 20
STANDARD_STREAM = "-"

_CHUNK = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP_MAGIC = b"\x1f\x8b"


def name_of(path: str | Path) -> str:
    """The name of a source in messages.

    >>> name_of("-"), name_of("calls.jsonl")
    ('standard input', 'calls.jsonl')
    """
    return "standard input" if str(path) == STANDARD_STREAM else str(path)


class LiveLines(io.RawIOBase):
    """A stream that hands out every line as soon as it has arrived, such as a pipe.

    It ends after `size` bytes.

    >>> lines = LiveLines(io.BytesIO(b"call mum\\nhang"))
    >>> lines.first_line(), lines.readline(), lines.has_line()
    (b'call mum\\n', b'call mum\\n', False)
    """

    def __init__(self, source: Any, size: int | None = None) -> None:
        self._read = getattr(source, "read1", source.read)
        self._held, self._place = b"", 0
        self._left = sys.maxsize if size is None else size

    def readable(self) -> bool:
        return True

    def has_line(self) -> bool:
        """Whether a whole line can be read without waiting."""
        return self._held.find(b"\n", self._place) >= 0

    def first_line(self, limit: int = 1 << 20) -> bytes:
        """The next line (up to `limit` bytes), which stays to be read."""
        while not self.has_line() and len(self._held) < limit and self._fill():
            pass
        return self._held[self._place :].partition(b"\n")[0] + b"\n" * self.has_line()

    def readline(self, size: int | None = -1, /) -> bytes:
        limit = sys.maxsize if size is None or size < 0 else size
        while not self.has_line() and len(self._held) - self._place < limit and self._fill():
            pass
        end = self._held.find(b"\n", self._place) + 1 or len(self._held)
        end = min(end, self._place + limit)
        line, self._place = self._held[self._place : end], end
        return line

    def readinto(self, buffer: Any, /) -> int:
        if self._place == len(self._held):
            self._fill()
        part = self._held[self._place : self._place + len(buffer)]
        buffer[: len(part)] = part
        self._place += len(part)
        return len(part)

    def _fill(self) -> bool:
        chunk: bytes = self._read(min(_CHUNK, self._left))
        self._left -= len(chunk)
        self._held, self._place = self._held[self._place :] + chunk, 0
        return bool(chunk)


@contextmanager
def open_bytes(path: str | Path, live: LiveLines | None = None) -> Iterator[BinaryIO]:
    """Open a file, or standard input for `-`, unless it is open already; gzip is decompressed."""
    if str(path) == STANDARD_STREAM or live is not None:
        lines = live or LiveLines(sys.stdin.buffer)
        if lines.first_line(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
            yield _decompressed(io.BufferedReader(lines))
        else:
            yield cast(BinaryIO, lines)
    else:
        with Path(path).open("rb") as stream:
            yield _decompressed(stream)


def byte_lines(stream: BinaryIO, name: str, limit: int) -> Iterator[tuple[int, bytes | None]]:
    """Number and bytes of each line, with its newline; None for a line over the limit."""
    number = 0
    try:
        while raw := stream.readline(limit + 1):
            number += 1
            if number == 1:
                raw = raw.removeprefix(_BYTE_ORDER_MARK)
            if len(raw) <= limit or raw.endswith(b"\n"):
                yield number, raw
            else:
                while raw and not raw.endswith(b"\n"):
                    raw = stream.readline(limit)
                yield number, None
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise InvalidInput(
            f"{name}: Expected complete gzip data, got damaged or truncated data after line "
            f"{number} ({problem}): download the file again."
        ) from problem


def text_lines(
    stream: BinaryIO, problems: Problems, limit: int, *, blank: bool = False
) -> Iterator[tuple[int, str]]:
    """Number and text of each non-blank line, or of each line, without its newline.

    >>> problems = Problems("calls.txt", strict=False)
    >>> list(text_lines(io.BytesIO(b"call mum\\r\\n\\n\\xff\\nhang up"), problems, LINE_LIMIT))
    [(1, 'call mum'), (4, 'hang up')]
    >>> problems.blank, problems.first[0]
    (1, Problem(place=3, reason='Expected UTF-8 text, got the byte 0xff at position 0.'))
    """
    for number, raw in byte_lines(stream, problems.name, limit):
        try:
            if raw is None:
                raise InvalidInput(f"Expected at most {limit} bytes in a line, got more.")
            text = decoded(raw)
        except InvalidInput as problem:
            problems.reject(number, problem)
            continue
        is_blank = not text or text.isspace()
        problems.blank += is_blank
        if blank or not is_blank:
            yield number, text


def decoded(raw: bytes) -> str:
    """The text of one line, without its newline.

    >>> decoded(b"caf\\xe9")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected UTF-8 text, got the byte 0xe9 at position 3.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError as problem:
        raise InvalidInput(
            f"Expected UTF-8 text, got the byte 0x{raw[problem.start]:02x} "
            f"at position {problem.start}."
        ) from problem
    if "\0" in text:
        raise InvalidInput(f"Expected text, got a NUL byte at character {text.index(chr(0))}.")
    return text.removesuffix("\n").removesuffix("\r")


def write_each(
    stream: BinaryIO, utterances: Iterable[Utterance], encode: Callable[[Utterance], bytes]
) -> int:
    """Write utterances and return their number; errors name the number of the utterance."""
    count = 0
    for count, utterance in enumerate(utterances, 1):
        try:
            encoded = encode(utterance)
        except InvalidInput as problem:
            raise InvalidInput(f"Cannot write utterance {count}: {problem}") from problem
        stream.write(encoded)
    return count


def check_characters(text: str) -> None:
    """Refuse NUL and lone surrogates, which a UTF-8 text file cannot contain.

    >>> check_characters("caf\\ud800")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected text, got the lone surrogate U+D800 at character 3.
    """
    if "\0" in text:
        raise InvalidInput(f"Expected text, got NUL at character {text.index(chr(0))}.")
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        code = ord(text[problem.start])
        raise InvalidInput(
            f"Expected text, got the lone surrogate U+{code:04X} at character {problem.start}."
        ) from problem


def refuse_bom(text: str) -> None:
    """Refuse a leading U+FEFF, which a reader would take for a byte-order mark."""
    if text.startswith("\ufeff"):
        raise InvalidInput("Expected no U+FEFF at the start, got one: write JSONL instead.")


def _decompressed(stream: "io.BufferedReader[Any]") -> BinaryIO:
    if stream.peek(2).startswith(_GZIP_MAGIC):
        return io.BufferedReader(_Unpacked(stream))
    return stream


_LARGEST_RATIO, _UNPACKED_FREELY = 200, 1 << 28


class _Unpacked(io.RawIOBase):
    """Unpacked bytes; refuses a file that unpacks to far more than any text does."""

    def __init__(self, packed: "io.BufferedReader[Any]") -> None:
        self.fileobj = packed
        self._packed = self._count = 0
        self._file = gzip.GzipFile(fileobj=cast(BinaryIO, self._Counted(self)))

    class _Counted:
        """The packed file, as far as gzip reads it."""

        def __init__(self, owner: "_Unpacked") -> None:
            self._owner = owner

        def read(self, size: int = -1) -> bytes:
            part = self._owner.fileobj.read(size)
            self._owner._packed += len(part)
            return part

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._file.read1(len(buffer))
        buffer[: len(part)] = part
        self._count += len(part)
        if self._count > max(_UNPACKED_FREELY, _LARGEST_RATIO * self._packed):
            raise InvalidInput(
                f"Expected gzip of text, got data that unpacks to more than {_LARGEST_RATIO} "
                "times its size."
            )
        return len(part)
