"""Lines of a file, a `.gz` file or standard input: bounded, strict UTF-8, one at a time.

A byte-order mark and Windows newlines are accepted. A byte that is not UTF-8, a NUL byte or a line
over the limit belongs to no utterance, so it is rejected with its line number.
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
    """One rejected record: where it stood, and why it was refused."""

    place: int
    reason: str


@dataclass(slots=True)
class Problems:
    """The count of what was rejected or repaired in one file, and the first reasons.

    >>> problems = Problems("calls.jsonl", strict=False)
    >>> problems.reject(3, "Expected a JSON object, got [].")
    >>> problems.rejected, problems.first
    (1, [Problem(place=3, reason='Expected a JSON object, got [].')])
    >>> Problems("calls.jsonl", strict=True).reject(3, "Expected a JSON object, got [].")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: calls.jsonl, line 3: Expected a JSON object, got []. Mend it, or
    read leniently to skip it.
    """

    name: str
    strict: bool
    unit: str = "line"
    rejected: int = 0
    repaired: int = 0
    blank: int = 0
    first: list[Problem] = field(default_factory=list)

    def reject(self, place: int, reason: InvalidInput | str) -> None:
        """Refuse the record at this line or row: raise when strict, else remember it."""
        if self.strict:
            raise InvalidInput(
                f"{self.name}, {self.unit} {place}: {reason} Mend it, or read leniently to skip it."
            )
        self.rejected += 1
        if len(self.first) < REASONS_KEPT:
            self.first.append(Problem(place, str(reason)))


LINE_LIMIT = 1 << 20
STANDARD_STREAM = "-"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP_MAGIC = b"\x1f\x8b"


def name_of(path: str | Path) -> str:
    """How messages call a source.

    >>> name_of("-"), name_of("calls.jsonl")
    ('standard input', 'calls.jsonl')
    """
    return "standard input" if str(path) == STANDARD_STREAM else str(path)


@contextmanager
def open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file, or standard input for `-`; what is compressed with gzip arrives expanded."""
    if str(path) == STANDARD_STREAM:
        buffered = io.BufferedReader(cast(io.RawIOBase, sys.stdin.buffer))
        try:
            yield _expanded(buffered)
        finally:
            buffered.detach()
    else:
        with Path(path).open("rb") as stream:
            yield _expanded(stream)


def byte_lines(stream: BinaryIO, name: str, limit: int) -> Iterator[tuple[int, bytes | None]]:
    """Number and bytes of every line, newline kept; None stands for a line over the limit."""
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
            f"{name}: the gzip data is damaged or cut short after line {number} ({problem}); "
            "fetch the file again."
        ) from problem


def text_lines(stream: BinaryIO, problems: Problems, limit: int) -> Iterator[tuple[int, str]]:
    """Number and text of every line that holds something, without its newline.

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
        if text and not text.isspace():
            yield number, text
        else:
            problems.blank += 1


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
    """Write the utterances one by one and return how many; a refusal names the one it is about."""
    count = 0
    for count, utterance in enumerate(utterances, 1):
        try:
            encoded = encode(utterance)
        except InvalidInput as problem:
            raise InvalidInput(f"Cannot write utterance {count}: {problem}") from problem
        stream.write(encoded)
    return count


def check_characters(text: str) -> None:
    """Refuse what no UTF-8 text file can hold: NUL and lone surrogates.

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


def refuse_mark(text: str) -> None:
    """Refuse to begin a file with what its reader would take for a byte-order mark."""
    if text.startswith("\ufeff"):
        raise InvalidInput("Expected no U+FEFF at the start, got one; write JSONL instead.")


def _expanded(stream: "io.BufferedReader[Any]") -> BinaryIO:
    if stream.peek(2).startswith(_GZIP_MAGIC):
        return io.BufferedReader(gzip.GzipFile(fileobj=stream))
    return stream
