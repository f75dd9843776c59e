"""A hash chain in an append-only file that survives kill -9 at any point.

Every record is a line with its number and the hash over it and all lines before it. `append`
returns only after its line is written, so a caller that appends first and acts afterwards has never
done more than the file records. A last line truncated by a crash was never acted on and is
ignored; any other damage is rejected. Complete lines are never rewritten.
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
    """A journal file opened for writing, with an exclusive lock."""

    def __init__(self, path: Path | str, *, durable: bool = True) -> None:
        """Open an existing file; with `durable`, every append waits for fsync.

        Without it the file survives a crash of the process, but not a power failure.
        """
        self.path = Path(path)
        # A relative path must not change its meaning after chdir.
        self._absolute = self.path.absolute()
        self._durable, self._broken = durable, False
        self._file = _open_for_writing(self.path)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = _read_all(self._file)
            self._size = len(content)
            self._check_unchanged()
            read = parse(content, self.path)
        except BaseException as problem:
            self.release()
            if isinstance(problem, BlockingIOError):
                raise InvalidInput(
                    f"Expected {self.path} to be unlocked, but another process is writing to it."
                ) from problem
            if isinstance(problem, OSError):
                raise InvalidInput(
                    f"Expected {self.path} to be readable and lockable, but: "
                    f"{problem.strerror or problem}."
                ) from problem
            raise
        self.chain, self._written = read.chain, read.written

    @property
    def head(self) -> Head:
        return self._written.head

    def append(self, link: Link) -> None:
        """Append one record; when this returns, it is written."""
        if self._broken:
            raise LedgerDamaged(
                f"Expected {self.path} to be writable, but an earlier write failed and could not "
                "be rolled back: open the ledger again."
            )
        if link.head.records != self.head.records + 1:
            raise LedgerDamaged(
                f"Expected one writer of {self.path} at a time, got a record that does not follow "
                "the last one; nothing was released."
            )
        self._check_unchanged()
        line = b"\n" * self._written.newline_is_missing + link.line
        try:
            if self._size > self._written.end:
                self._truncate()
            os.lseek(self._file, self._written.end, os.SEEK_SET)
            _write_all(self._file, line)
            if self._durable:
                os.fsync(self._file)
            self._size = self._written.end + len(line)
            # This single assignment commits the record.
            self._written = Written(self._size, link.head, newline_is_missing=False)
        except BaseException:
            # After a full disk or an interrupt, remove the partial line.
            self._truncate()
            raise

    def sync(self) -> None:
        """Flush to disk; call it before writing a checkpoint that depends on these records."""
        if self._file >= 0:
            os.fsync(self._file)

    def release(self, *, unlock: bool = False) -> None:
        """Close the file without changing it.

        `unlock` releases the lock immediately, even if a fork still holds a copy of the descriptor.
        Do not use it in a fork: it would release the lock of the parent.
        """
        if self._file >= 0:
            if unlock:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file = -1

    def _truncate(self) -> None:
        self._broken = True
        os.ftruncate(self._file, self._written.end)
        self._size, self._broken = self._written.end, False

    def _check_unchanged(self) -> None:
        """Raise if the file at the path was replaced, moved or changed by someone else."""
        held = os.fstat(self._file)
        try:
            there = self._absolute.lstat()
        except FileNotFoundError:
            there = None
        if there is None or (held.st_dev, held.st_ino) != (there.st_dev, there.st_ino):
            raise LedgerDamaged(
                f"Expected the ledger at {self.path} to stay in place, but it was moved, "
                "deleted or replaced while in use; nothing was released."
            )
        if held.st_size != self._size:
            raise LedgerDamaged(
                f"Expected {self.path} as this process left it ({self._size} bytes), got "
                f"{held.st_size} bytes: another program wrote to it; nothing was released."
            )

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0:
            self.release()


@dataclass(frozen=True)
class Written:
    """The end of the valid part of a file, in bytes and as the head of its chain."""

    end: int
    head: Head
    newline_is_missing: bool


@dataclass(frozen=True)
class Parsed:
    """The content of a file; `unchained` counts records of an earlier version without hashes."""

    chain: Chain
    written: Written
    unchained: int


def create(path: Path | str, chain_lines: bytes) -> None:
    """Create a journal with these lines atomically; never overwrite an existing file."""
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
            f"Expected to create a ledger at {path}, but: {problem.strerror or problem}."
        ) from problem
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def read_journal(path: Path | str) -> Parsed:
    """Read a journal without locking or changing it."""
    try:
        # Reading a pipe or a device might never end.
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise InvalidInput(
                f"Expected a ledger at {path}, got something other than a regular file."
            )
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
        if not reader.accepts(line):
            raise LedgerDamaged(
                f"Expected line {number} of {path} to match its hash; it was altered or lost. "
                "Restore the file from a copy; spending cannot continue from a damaged ledger."
            )
        end += len(line) + 1
    whole = bool(tail) and reader.accepts(tail)
    if tail and not whole and (_is_complete(tail) or not lines):
        raise LedgerDamaged(
            f"Expected the last line of {path} to match its hash; it was altered. Restore the file "
            "from a copy; spending cannot continue from a damaged ledger."
        )
    if reader.unchained:
        warnings.warn(
            f"{path} has {reader.unchained} records of an earlier version without hashes: they may "
            "have been altered or truncated, and batches of several training runs may count as one "
            "epoch.",
            UnchainedLedger,
            stacklevel=4,
        )
    written = Written(end + whole * len(tail), reader.chain.head, newline_is_missing=whole)
    return Parsed(reader.chain, written, reader.unchained)


class _Reader:
    """Reads lines and checks that each continues the chain."""

    def __init__(self) -> None:
        self.chain, self.unchained = Chain(), 0
        self._checksum = "00000000"
        self._known: dict[str, Record] = {}

    def accepts(self, line: bytes) -> bool:
        try:
            text = line.decode("ascii")
        except UnicodeDecodeError:
            return False
        if text.startswith('{"crc": "') and self.unchained == self.chain.head.records:
            return self._accepts_unchained(text)
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

    def _accepts_unchained(self, text: str) -> bool:
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
        """The record, if its text is exactly what this program would write."""
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
    """Whether a line without newline holds a complete object, as no truncated line can."""
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
            why = "it is a symbolic link; give the path of its target"
        raise InvalidInput(f"Expected a writable ledger at {path}, but: {why}.") from problem
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise InvalidInput(f"Expected a ledger at {path}, got something other than a regular file.")
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
