"""Release to standard output, every line as soon as it has been read.

Nothing can be taken back from a pipe, so a stream always ends with a statement of what was
released: at the end of the input, at Ctrl-C or SIGTERM, and when the reader of the output leaves.
"""

import hashlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from sottovoce.corpora import FORMATS, Columns, Reader, Utterance
from sottovoce.corpora.formats import TABLES
from sottovoce.deid.deidentifier import Deidentifier
from sottovoce.deid.files.corpus_file import record_name
from sottovoce.deid.files.manifest import Examples, manifest, write_manifest
from sottovoce.deid.files.nested import NestedReader
from sottovoce.deid.files.workers import Track, form_of, released_utterances
from sottovoce.errors import InvalidInput
from sottovoce.io.run import SUFFIX, Run


def release_stream(
    deid: Deidentifier,
    reader: Reader,
    *,
    format: str | None = None,
    track: Track = iter,
    examples: int = 0,
    manifest_file: str | Path | None = None,
) -> dict[str, Any]:
    """Release the reader's utterances to standard output; return the manifest.

    It is also written to `manifest_file`, OUT.run.json. If the output was saved as OUT, `verify`
    can check it.
    """
    began = time.perf_counter()
    folder = None if manifest_file is None else _folder_of(Path(manifest_file))
    chosen = format or reader.format
    columns = reader.columns if chosen in TABLES else Columns()
    shown = Examples(examples)
    output = _Hashed(sys.stdout.buffer)
    with _stoppable() as stop:
        utterances = _until(stop, reader, output, track)
        released = released_utterances(deid, utterances, shown, waits=lambda: reader.waits)
        try:
            if isinstance(reader, NestedReader):
                reader.write(cast(BinaryIO, output), released, deid)
            else:
                form = FORMATS.get(form_of(reader, chosen))
                form.write(cast(BinaryIO, output), released, columns)
            output.flush()
        except BrokenPipeError:
            output.close_pipe()
    content = manifest(
        deid,
        deid.statement(),
        source=reader.path,
        output=output.description(),
        seconds=time.perf_counter() - began,
        folder=folder,
    )
    if examples:
        content = {**content, "examples": shown.found}
    if folder is not None:
        name = Path(str(manifest_file)).name.removesuffix(SUFFIX)
        folder.write_private(record_name(name), deid.record())
        content = write_manifest(folder, content | {"output": content["output"] | {"name": name}})
    return content


def _folder_of(path: Path) -> Run:
    if not path.name.endswith(SUFFIX) or path.name == SUFFIX:
        raise InvalidInput(f"Expected a manifest named OUT{SUFFIX}, got {path.name}.")
    if path.exists():
        raise InvalidInput(
            f"Expected a new manifest, got the existing {path}: name another; the cost of both "
            "releases adds up."
        )
    return Run.beside(path.with_name(path.name.removesuffix(SUFFIX)))


class _Hashed:
    """Standard output, and the size and hash of what went there."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._digest, self._size = stream, hashlib.sha256(), 0

    def write(self, content: bytes) -> int:
        self._stream.write(content)
        self._digest.update(content)
        self._size += len(content)
        return len(content)

    def flush(self) -> None:
        self._stream.flush()

    def close_pipe(self) -> None:
        """Drop what nobody reads any more; Python would try to write it again at exit."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def description(self) -> dict[str, Any]:
        return {"name": "-", "bytes": self._size, "sha256": self._digest.hexdigest()}


class _Stop:
    """Whether somebody asked to stop. While waiting for input, a signal interrupts the wait."""

    def __init__(self) -> None:
        self.asked = self.waiting = False

    def on_signal(self, *_: object) -> None:
        again, self.asked = self.asked, True
        if self.waiting or again:
            raise KeyboardInterrupt


@contextmanager
def _stoppable() -> Iterator[_Stop]:
    stop = _Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # Only the main thread gets signals.
        return
    before = {each: signal.signal(each, stop.on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _until(stop: _Stop, reader: Reader, output: _Hashed, track: Track) -> Iterator[Utterance]:
    """The utterances until the end or a signal; the output is flushed before every wait."""
    source = iter(track(reader))
    while not stop.asked:
        if reader.waits:
            output.flush()
        stop.waiting = True
        try:
            utterance = next(source)
        except (StopIteration, KeyboardInterrupt):
            return
        finally:
            stop.waiting = False
        yield utterance
