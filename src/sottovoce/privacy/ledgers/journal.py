"""A chain of records in a file that survives kill -9 at any instant.

Every record is a line with its number and the hash over it and all lines before it. `append`
returns only when its line is written, so whoever writes first and acts afterwards has never done
more than the file says. A last line that a crash cut short had not been acted upon and is left out;
any other damage is refused. Nothing in the file is ever rewritten.
"""

import contextlib
import errno
import fcntl
import json
import os
import secrets
import stat
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path

from sottovoce.errors import InvalidInput, LedgerDamaged, UnchainedLedger
from sottovoce.privacy.ledgers.chain import Chain, Head, Link, Record

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class Journal:
    """A file of records opened for writing; only one `Journal` can hold it."""

    def __init__(self, path: Path | str, *, durable: bool = True) -> None:
        """Open a file that is there; `durable` lets every append wait for the disk.

        Without it the file still survives the death of the process, but not a power cut.
        """
        self.path = Path(path)
        # A later chdir must not turn a relative path into another file.
        self._place = self.path.absolute()
        self._durable, self._broken = durable, False
        self._file = _open_for_writing(self.path)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = _read_all(self._file)
            self._size = len(content)
            self._check_in_place()
            read = parse(content, self.path)
        except BaseException as problem:
            self.release()
            if isinstance(problem, BlockingIOError):
                raise InvalidInput(
                    f"Expected {self.path} to be free, but another process is writing to it."
                ) from problem
            if isinstance(problem, OSError):
                raise InvalidInput(
                    f"Expected {self.path} where a file can be locked and read, but: "
                    f"{problem.strerror or problem}."
                ) from problem
            raise
        self.chain, self._written = read.chain, read.written

    @property
    def head(self) -> Head:
        return self._written.head

    def append(self, link: Link) -> None:
        """Write one record; when this returns, it counts."""
        if self._broken:
            raise LedgerDamaged(
                f"Expected {self.path} to take what is written, but an earlier record could be "
                "neither written nor taken back: open the ledger again."
            )
        if link.head.records != self.head.records + 1:
            raise LedgerDamaged(
                f"Expected one writer of {self.path} at a time, got a record that was made before "
                "the last one was written; nothing was released."
            )
        self._check_in_place()
        line = b"\n" * self._written.newline_is_missing + link.line
        try:
            if self._size > self._written.end:
                self._drop_after_end()
            os.lseek(self._file, self._written.end, os.SEEK_SET)
            _write_all(self._file, line)
            if self._durable:
                os.fsync(self._file)
            self._size = self._written.end + len(line)
            # One store: before it the record does not count, after it it does.
            self._written = Written(self._size, link.head, newline_is_missing=False)
        except BaseException:
            # A full disk, an interrupt: take back the half line, so that nothing sticks to it.
            self._drop_after_end()
            raise

    def sync(self) -> None:
        """Reach the disk now: before a checkpoint that depends on these records is written."""
        if self._file >= 0:
            os.fsync(self._file)

    def release(self, *, unlock: bool = False) -> None:
        """Let go of the file as it is.

        With `unlock` the lock goes at once: a fork that has not run yet still holds the file too.
        In a fork itself, unlocking would take the lock from its parent.
        """
        if self._file >= 0:
            if unlock:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = -1

    def _drop_after_end(self) -> None:
        self._broken = True
        os.ftruncate(self._file, self._written.end)
        self._size, self._broken = self._written.end, False

    def _check_in_place(self) -> None:
        """Refuse to write to a file that is no longer the one at its path, or not as it was."""
        held = os.fstat(self._file)
        try:
            there = self._place.lstat()
        except FileNotFoundError:
            there = None
        if there is None or (held.st_dev, held.st_ino) != (there.st_dev, there.st_ino):
            raise LedgerDamaged(
                f"Expected the ledger at {self.path} to stay where it is, but it was moved, "
                "deleted or replaced while in use; nothing was released."
            )
        if held.st_size != self._size:
            raise LedgerDamaged(
                f"Expected {self.path} as this process left it ({self._size} bytes), got "
                f"{held.st_size} bytes: something else wrote to it; nothing was released."
            )

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0:
            self.release()


@dataclass(frozen=True)
class Written:
    """How far a file counts: up to this byte, which is this end of the chain."""

    end: int
    head: Head
    newline_is_missing: bool


@dataclass(frozen=True)
class Parsed:
    """What a file holds; `unchained` records are of an earlier version, without hashes."""

    chain: Chain
    written: Written
    unchained: int


def create(path: Path | str, chain_lines: bytes) -> None:
    """Make a journal with these lines, whole or not at all; never replace what is there."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        _write_new(temporary, flags, chain_lines)
        try:
            os.link(temporary, path)
        except OSError as problem:
            if problem.errno not in _NO_LINKS:
                raise
            _write_new(path, flags, chain_lines)  # a file system without hard links
        finally:
            temporary.unlink()
    except FileExistsError:
        raise
    except OSError as problem:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise InvalidInput(
            f"Expected a place for a ledger at {path}, but: {problem.strerror or problem}."
        ) from problem
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def read_journal(path: Path | str) -> Parsed:
    """The records of a journal, without holding or changing it."""
    try:
        # A pipe or a device would be read for ever.
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise InvalidInput(f"Expected a ledger at {path}, got something that is not a file.")
        content = Path(path).read_bytes()
    except OSError as problem:
        raise InvalidInput(
            f"Expected a ledger at {path}, but: {problem.strerror or problem}."
        ) from problem
    return parse(content, Path(path))


def parse(content: bytes, path: Path) -> Parsed:
    if not content:
        raise LedgerDamaged(
            f"Expected a ledger in {path}, got an empty file: restore it from a copy, or delete it "
            "if nothing was ever spent."
        )
    reader = _Reader()
    *lines, tail = content.split(b"\n")
    end = 0
    for number, line in enumerate(lines, start=1):
        if not reader.takes(line):
            raise LedgerDamaged(
                f"Expected line {number} of {path} to match its hash; it was altered or lost. "
                "Restore the file from a copy; spending cannot go on from a damaged ledger."
            )
        end += len(line) + 1
    whole = bool(tail) and reader.takes(tail)
    if tail and not whole and (_is_complete(tail) or not lines):
        raise LedgerDamaged(
            f"Expected the last line of {path} to match its hash; it was altered. Restore the file "
            "from a copy; spending cannot go on from a damaged ledger."
        )
    if reader.unchained:
        warnings.warn(
            f"{path} has {reader.unchained} records of an earlier version, which carry no hashes: "
            "they may have been altered or cut off at the end, and batches of several trainings "
            "may count as one epoch.",
            UnchainedLedger,
            stacklevel=4,
        )
    written = Written(end + whole * len(tail), reader.chain.head, newline_is_missing=whole)
    return Parsed(reader.chain, written, reader.unchained)


class _Reader:
    """Takes lines as long as each continues the chain."""

    def __init__(self) -> None:
        self.chain, self.unchained = Chain(), 0
        self._checksum = "00000000"
        self._known: dict[str, Record] = {}

    def takes(self, line: bytes) -> bool:
        try:
            text = line.decode("ascii")
        except UnicodeDecodeError:
            return False
        if text.startswith('{"crc": "') and self.unchained == self.chain.head.records:
            return self._takes_unchained(text)
        start = text.find('"record": ')
        body = text[start + len('"record": ') : -1]
        record = self._record(body)
        if start < 0 or record is None:
            return False
        link = self.chain.link(record, body)
        if link.line != line + b"\n":
            return False
        self.chain.append(link)
        return True

    def _takes_unchained(self, text: str) -> bool:
        # {"crc": "01234567", "record": BODY}: the checksum covers itself and the line before.
        checksum, body = text[9:17], text[30:-1]
        record = self._record(body)
        if record is None or f'{{"crc": "{checksum}", "record": {body}}}' != text:
            return False
        if f"{zlib.crc32((self._checksum + body).encode()):08x}" != checksum:
            return False
        self._checksum = checksum
        self.chain.append(self.chain.link(record, body))
        self.unchained += 1
        return True

    def _record(self, body: str) -> Record | None:
        """The record, if it is written exactly as this program writes it."""
        if body not in self._known:
            try:
                record = json.loads(body)
                if json.dumps(record, sort_keys=True, allow_nan=False) != body:
                    return None
            except (ValueError, RecursionError):
                return None
            if not isinstance(record, dict):
                return None
            self._known[body] = record
        return self._known[body]


def _is_complete(tail: bytes) -> bool:
    """Whether an unended line holds a whole object, which no cut through a good line leaves."""
    try:
        json.JSONDecoder().raw_decode(tail.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return False
    return True


def _open_for_writing(path: Path) -> int:
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError as problem:
        why = problem.strerror or str(problem)
        if problem.errno == errno.ELOOP:
            why = "it is a symbolic link; name the file that it leads to"
        raise InvalidInput(
            f"Expected a ledger that can be written at {path}, but: {why}."
        ) from problem
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise InvalidInput(f"Expected a ledger at {path}, got something that is not a file.")
    return file


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


def _write_new(path: Path, flags: int, content: bytes) -> None:
    file = os.open(path, flags, 0o600)
    try:
        _write_all(file, content)
        os.fsync(file)
    finally:
        os.close(file)
