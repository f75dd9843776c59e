"""Files that appear whole or not at all, one by one or several together."""

import gzip
import io
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol, TextIO, cast

from sottovoce.errors import InvalidInput


@contextmanager
def output(path: str | Path, *, mode: int | None = None) -> Iterator[BinaryIO]:
    """A binary stream that becomes the file at `path` when the block ends well.

    Everything is written to a hidden file beside the target, forced to disk and then renamed over
    it. A full disk, an error or Ctrl-C removes the hidden file and leaves the target as it was.

    `-` is standard output; a name that ends in `.gz` is compressed, with the same bytes each time.
    With a `mode`, such as 0o600, the file has it from its first byte on.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with output(Path(folder, "greeting.txt")) as stream:
    ...         _ = stream.write(b"hello")
    ...     Path(folder, "greeting.txt").read_text()
    'hello'
    """
    with outputs(path, mode=mode) as (stream,):
        yield stream


@contextmanager
def text_output(path: str | Path, *, mode: int | None = None) -> Iterator[TextIO]:
    """Like `output`, for UTF-8 text with Unix newlines."""
    with output(path, mode=mode) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="\n", write_through=True)
        try:
            yield text
            text.flush()
        finally:
            text.detach()


@contextmanager
def outputs(*paths: str | Path, mode: int | None = None) -> Iterator[tuple[BinaryIO, ...]]:
    """Several outputs that succeed together: all are safe on disk before one is renamed."""
    pending = [_output(path, mode) for path in paths]
    try:
        yield tuple(file.open() for file in pending)
        for file in pending:
            file.finish()
        for file in pending:
            file.publish()
    finally:
        for file in pending:
            file.discard()


class _Output(Protocol):
    """Finish forces the bytes out, publish makes them visible, discard always comes last."""

    def open(self) -> BinaryIO: ...
    def finish(self) -> None: ...
    def publish(self) -> None: ...
    def discard(self) -> None: ...


class _Renamed:
    """A hidden file beside its target. Its name is settled before the file exists, so that an
    interruption at any moment finds something to remove."""

    def __init__(self, target: Path, mode: int | None) -> None:
        # A link stays a link: the file it points to is replaced.
        self.target = target.resolve()
        self.hidden = self.target.with_name(f".{self.target.name}.{secrets.token_hex(4)}.part")
        kept = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        self.mode = kept if mode is None else mode
        self.compress = target.suffix.lower() == ".gz"
        self.file: BinaryIO | None = None
        self.compressor: gzip.GzipFile | None = None

    def open(self) -> BinaryIO:
        # Until it is whole, nobody else may read it.
        rights = 0o666 if self.mode is None else 0o600
        handle = os.open(self.hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, rights)
        self.file = os.fdopen(handle, "wb")
        if not self.compress:
            return self.file
        self.compressor = gzip.GzipFile(filename="", fileobj=self.file, mode="wb", mtime=0)
        return cast(BinaryIO, self.compressor)

    def finish(self) -> None:
        assert self.file is not None
        if self.compressor is not None:
            self.compressor.close()
        self.file.flush()
        if self.mode is not None:
            os.fchmod(self.file.fileno(), self.mode)
        os.fsync(self.file.fileno())
        self.file.close()

    def publish(self) -> None:
        self.hidden.replace(self.target)
        sync_folder(self.target.parent)

    def discard(self) -> None:
        self.hidden.unlink(missing_ok=True)
        for stream in (self.compressor, self.file):
            if stream is not None:
                # What is still buffered may not fit on a full disk; it is not wanted any more.
                with suppress(OSError):
                    stream.close()


class _Direct:
    """A pipe, a device or standard output (no path): nothing to rename."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.stream: BinaryIO | None = None

    def open(self) -> BinaryIO:
        self.stream = sys.stdout.buffer if self.path is None else self.path.open("wb")
        return self.stream

    def finish(self) -> None:
        assert self.stream is not None
        self.stream.flush()

    def publish(self) -> None:
        pass

    def discard(self) -> None:
        if self.path is not None and self.stream is not None:
            with suppress(OSError):
                self.stream.close()


def _output(path: str | Path, mode: int | None = None) -> _Output:
    if str(path) == "-":
        return _Direct(None)
    target = Path(path)
    if target.is_dir():
        raise InvalidInput(f"Expected a file to write, got the folder {target}; add a file name.")
    if not target.parent.is_dir():
        raise InvalidInput(f"Expected an existing folder for {target}; create {target.parent}.")
    if target.exists() and not target.is_file():
        return _Direct(target)
    return _Renamed(target, mode)


def sync_folder(folder: Path) -> None:
    """Force a folder to disk, so that files that were renamed in it stay renamed."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


VALID = ".saved"
_UNFINISHED = ".saving-"


def write_together(folder: str | Path, files: Mapping[str, bytes]) -> None:
    """Write the files into the folder, which is created if missing; other files in it stay.

    The files change together, or not at all. They are written to a hidden folder inside the folder
    and forced to disk. Renaming that folder to `.saved` makes them valid; then they are moved into
    place. Readers look into `.saved` first (see `find`), so a save that was killed has either not
    happened or is complete.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_together(folder, {"a.txt": b"new", "b.txt": b"new"})
    ...     find(folder, "a.txt").read_text(), sorted(path.name for path in Path(folder).iterdir())
    ('new', ['a.txt', 'b.txt'])
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"Expected a folder to write to, got the file {folder}.")
    folder.mkdir(parents=True, exist_ok=True)
    settle(folder)
    hidden = folder / f"{_UNFINISHED}{secrets.token_hex(4)}"
    hidden.mkdir()
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, hidden, ignore_errors=True)
        for name, content in files.items():
            with (hidden / name).open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        sync_folder(hidden)
        hidden.rename(folder / VALID)
        undo.pop_all()
    sync_folder(folder)
    settle(folder)


def settle(folder: str | Path) -> None:
    """Finish what a killed save had begun to move, and clear away what it had not."""
    folder = Path(folder)
    valid = folder / VALID
    if valid.is_dir():
        for path in sorted(valid.iterdir()):
            path.replace(folder / path.name)
        sync_folder(folder)
        valid.rmdir()
    if folder.is_dir():
        for left in folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)


def find(folder: str | Path, name: str) -> Path:
    """Where the valid version of a file is, whether or not it is there at all."""
    valid = Path(folder) / VALID / name
    return valid if valid.is_file() else Path(folder) / name
