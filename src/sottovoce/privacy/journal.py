"""An append-only file of JSON records that survives kill -9 at any instant.

Every record is one line that carries a checksum of itself and of the line before it. `append`
returns only when its line is on disk, so whoever writes first and acts afterwards has never done
more than the file says. A last line that was cut short by a crash had not been acted upon and is
dropped; damage anywhere else is refused.
"""

import fcntl
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sottovoce.errors import InvalidInput, LedgerDamaged

Record = Mapping[str, Any]


class Journal:
    """A journal opened for writing; only one process can hold it.

    `durable` asks the operating system to reach the disk on every append, which outlives a power
    cut too. Without it the file still survives the death of the process.
    """

    def __init__(self, path: Path | str, *, durable: bool = True) -> None:
        self.path = Path(path)
        self._durable = durable
        is_new = not self.path.exists()
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.records, self._checksum, self._end = _parse(_read_all(self._file), self.path)
        except BaseException as problem:
            os.close(self._file)
            if isinstance(problem, BlockingIOError):
                raise InvalidInput(
                    f"Expected {self.path} to be free, but another process is writing to it."
                ) from problem
            raise
        self._drop_after_end()
        if is_new:
            _sync_folder(self.path)

    def append(self, record: Record) -> None:
        """Write one record; when this returns, it counts."""
        line, checksum = _encode(record, self._checksum)
        try:
            os.lseek(self._file, self._end, os.SEEK_SET)
            _write_all(self._file, line)
            if self._durable:
                os.fsync(self._file)
        except OSError:
            # A full disk: take back the half line, so that the next record does not stick to it.
            self._drop_after_end()
            raise
        self._checksum, self._end = checksum, self._end + len(line)
        self.records.append(record)

    def rewrite(self, records: Iterable[Record]) -> None:
        """Replace the file by these records in one instant (temporary file, then rename)."""
        temporary = self.path.with_name(self.path.name + ".tmp")
        replacement = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        fcntl.flock(replacement, fcntl.LOCK_EX)
        content, checksum = b"", _START
        kept = list(records)
        for record in kept:
            line, checksum = _encode(record, checksum)
            content += line
        _write_all(replacement, content)
        os.fsync(replacement)
        temporary.replace(self.path)
        _sync_folder(self.path)
        os.close(self._file)
        self._file, self._checksum, self._end = replacement, checksum, len(content)
        self.records = kept

    def sync(self) -> None:
        """Reach the disk now: before a checkpoint that depends on these records is written."""
        os.fsync(self._file)

    def close(self) -> None:
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def _drop_after_end(self) -> None:
        os.ftruncate(self._file, self._end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_records(path: Path | str) -> list[Record]:
    """The records of a journal, without holding it."""
    return _parse(Path(path).read_bytes(), Path(path))[0]


_START = "00000000"


def _encode(record: Record, previous: str) -> tuple[bytes, str]:
    body = json.dumps(record, sort_keys=True, allow_nan=False)
    checksum = f"{zlib.crc32((previous + body).encode()):08x}"
    return f'{{"crc": "{checksum}", "record": {body}}}\n'.encode(), checksum


def _parse(content: bytes, path: Path) -> tuple[list[Record], str, int]:
    """The good records, the checksum of the last one, and where it ends."""
    records: list[Record] = []
    checksum, end = _START, 0
    lines = content.split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            record = json.loads(line)["record"]
            expected, checksum_now = _encode(record, checksum)
            intact = expected == line + b"\n"
        except (ValueError, KeyError, TypeError):
            intact = False
        if not intact:
            if number == len(lines) - 1 and not lines[-1]:
                break  # The last line, cut short and yet ended: a crash on some file systems.
            raise LedgerDamaged(
                f"Expected line {number} of {path} to match its checksum; it was altered or lost. "
                "Restore the file from a copy; spending cannot go on from a damaged ledger."
            )
        records.append(record)
        checksum, end = checksum_now, end + len(line) + 1
    return records, checksum, end


def _read_all(file: int) -> bytes:
    size = os.fstat(file).st_size
    chunks = []
    while size > 0 and (chunk := os.read(file, size)):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _write_all(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
