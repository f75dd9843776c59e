"""Releasing a corpus file: one pass, constant memory, an output that is whole or absent.

The output is written to a hidden file; then the statement is derived and the manifest published,
and only then does the output appear. So there is never a released file without its manifest.
A manifest whose output is gone (deleted, or never renamed) still counts: the text may be out.
"""

import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sottovoce.corpora import Columns, Reader, Utterance, format_of, write
from sottovoce.corpora.formats import TABLES
from sottovoce.deid.deidentifier import Deidentifier
from sottovoce.deid.files.examples import Examples
from sottovoce.deid.files.manifest import SUFFIX, manifest, write_manifest
from sottovoce.errors import InvalidInput
from sottovoce.io.run_folder import PRIVATE, RunFolder

RECORD = ".record.json"
Track = Callable[[Iterable[Utterance]], Iterable[Utterance]]


def release_file(
    deid: Deidentifier,
    reader: Reader,
    output: str | Path,
    *,
    format: str | None = None,
    track: Track = iter,
    examples: int = 0,
    call: int | None = None,
) -> dict[str, Any]:
    """Release what a reader reads; return the manifest, with this many examples of private text.

    `-` streams to standard output as the text comes, and then there is no manifest file. Files with
    the same `call` are parts of one release (see `Deidentifier.release_all`).
    """
    began = time.perf_counter()
    to_stream = str(output) == "-"
    chosen = format or (reader.format if to_stream else format_of(output))
    columns: Columns | None = reader.columns if chosen in TABLES else None
    if not to_stream:
        _check(Path(output), reader)
    hidden = Path("-") if to_stream else _hidden(Path(output))
    known = None if to_stream else _state(Path(output))
    folder = None if to_stream else RunFolder.beside(output)
    shown = Examples(examples)
    if not to_stream and Path(f"{output}{SUFFIX}").exists():
        deid.absorb(record_of(output))
        call = None  # The same text again is no longer a part of one release.
    try:
        rights = 0 if to_stream else _own(hidden)
        write(hidden, _released(deid, track(reader), shown, call), chosen, columns=columns)
        if deid.detector.name == "gold" and not deid.tally.tokens:
            raise InvalidInput(
                f"Expected private annotations in {reader.path}, found none in "
                f"{deid.tally.utterances} utterances; nothing was released."
            )
        content = manifest(
            deid,
            deid.statement(),
            source=reader.path,
            output=hidden,
            seconds=time.perf_counter() - began,
            folder=folder,
        )
        if examples:
            content = {**content, "examples": shown.found}
        if folder is not None:
            content = _renamed(content, Path(output).name)
            hidden.chmod(rights)
            with _alone(Path(output).parent):
                if _state(Path(output)) != known:
                    raise InvalidInput(
                        f"Expected {output} to stay as it was, but another process has released "
                        "to it since: name another output; nothing was released by this one."
                    )
                folder.write_private(_record(output), deid.record())
                content = write_manifest(folder, content)
                hidden.replace(output)
    finally:
        if not to_stream:
            hidden.unlink(missing_ok=True)
    return content


def record_of(output: str | Path) -> dict[str, Any]:
    """All that a statement needs of a release, kept in private/ (see `Deidentifier.absorb`)."""
    path = Path(output).parent / PRIVATE / _record(output)
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        return record
    except (OSError, ValueError) as problem:
        raise InvalidInput(
            f"Expected the record of the release {output} at {path}, but it cannot be read: what "
            "that release cost would be forgotten. Restore it, or name another output."
        ) from problem


def _record(output: str | Path) -> str:
    return f"{Path(output).name}{RECORD}"


def _check(output: Path, reader: Reader) -> None:
    if not output.parent.is_dir():
        raise InvalidInput(f"Expected an existing folder for {output}; create it.")
    if output.exists() and Path(reader.path).exists() and output.samefile(reader.path):
        raise InvalidInput(f"Expected another output than the input {output}; it would be lost.")
    if output.exists() and Path(f"{output}{SUFFIX}").exists():
        raise InvalidInput(
            f"Expected an output that is not there yet, got the release {output}: what it cost "
            "would be forgotten, and releasing the text again adds to it. Name another output."
        )


def _released(
    deid: Deidentifier, utterances: Iterable[Utterance], shown: Examples, call: int | None
) -> Iterator[Utterance]:
    for released in deid.release_all(shown.seen(utterances), call=call):
        shown.add(released.text, released.offsets)
        yield released.utterance


def _hidden(output: Path) -> Path:
    """A name that ends alike, since the end of a name decides about compression."""
    return output.with_name(f".{secrets.token_hex(4)}.part.{output.name}")


def _own(hidden: Path) -> int:
    """Make the hidden file for its owner alone; return the rights that it is to have at the end.

    Whoever kills the process leaves it behind, and no statement speaks of what is in it.
    """
    hidden.touch(exist_ok=False)
    rights = stat.S_IMODE(hidden.stat().st_mode)
    hidden.chmod(0o600)
    return rights


def _state(output: Path) -> tuple[int, int] | None:
    """What tells one manifest of an output from another."""
    try:
        found = Path(f"{output}{SUFFIX}").stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _renamed(content: dict[str, Any], name: str) -> dict[str, Any]:
    return {**content, "output": {**content["output"], "name": name}}


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time publishes into a folder; what it did is on disk when it leaves."""
    file = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
        os.fsync(file)
    finally:
        os.close(file)
