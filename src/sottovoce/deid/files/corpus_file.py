"""Release a corpus file: one pass, constant memory, atomic output.

The output is written to a temporary file. Then the statement is derived and the manifest published,
and only then is the output renamed into place, so a released file always has a manifest. A manifest
whose output is missing (deleted, or never renamed) still counts: the text may have been read.
"""

import fcntl
import glob
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sottovoce import _validate
from sottovoce.corpora import Columns, Reader, format_of, write
from sottovoce.corpora.formats import TABLES
from sottovoce.deid.deidentifier import Deidentifier
from sottovoce.deid.files.manifest import Examples, describe_file, manifest, write_manifest
from sottovoce.deid.files.nested import NestedReader
from sottovoce.deid.files.workers import (
    Track,
    form_of,
    release_in_parts,
    released_utterances,
)
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output as output_file
from sottovoce.io.run import PRIVATE, SUFFIX, Run

RECORD = ".record.json"
_FOLDER_MODE = 0o700


def release_file(
    deid: Deidentifier,
    reader: Reader,
    output: str | Path,
    *,
    format: str | None = None,
    track: Track = iter,
    examples: int = 0,
    call: int | None = None,
    workers: int = 1,
    before: Callable[[dict[str, Any]], None] = lambda manifest: None,
) -> dict[str, Any]:
    """Release the reader's utterances; return the manifest, with up to `examples` examples.

    Files with the same `call` are parts of one release (see `Deidentifier.release_all`). Several
    `workers` are processes that release parts of the file (see `workers`). `before` gets the
    manifest before anything can be read, and may refuse the release.
    """
    began = time.perf_counter()
    target = Path(output)
    chosen = format or format_of(target)
    columns: Columns | None = reader.columns if chosen in TABLES else None
    _check(target, reader)
    known, folder = _state(target), Run.beside(target)
    shown = Examples(examples)
    if Path(f"{target}{SUFFIX}").exists():
        deid.absorb(record_of(target))
        call = None  # Releasing the same text again is a separate release.
    with _part_folder(target) as parts:
        hidden = parts / target.name  # The suffix decides about compression.
        if _validate.at_least_one("workers", workers) > 1:
            release_in_parts(deid, reader, hidden, chosen, shown, call=call, workers=workers)
        else:
            released = released_utterances(deid, track(reader), shown, call=call)
            if isinstance(reader, NestedReader):
                with output_file(hidden) as stream:
                    reader.write(stream, released, deid)
            else:
                write(hidden, released, form_of(reader, chosen), columns=columns)
        if deid.detector.name == "gold" and not deid.unit_counts.tokens:
            raise InvalidInput(
                f"Expected private annotations in {reader.path}, got none in "
                f"{deid.unit_counts.utterances} utterances: nothing was released."
            )
        content = manifest(
            deid,
            deid.statement(),
            source=reader.path,
            output=describe_file(hidden),
            seconds=time.perf_counter() - began,
            folder=folder,
        )
        if examples:
            content = {**content, "examples": shown.found}
        with _exclusive(target.parent):
            if _state(target) != known:
                raise InvalidInput(
                    f"Expected {target} to be unchanged, but another process has released to "
                    "it: name another output. This process released nothing."
                )
            before(content)
            folder.write_private(record_name(target), deid.record())
            content = write_manifest(folder, content)
            hidden.replace(target)
    return content


def record_of(output: str | Path) -> dict[str, Any]:
    """The record of a release, kept in private/ (see `Deidentifier.absorb`)."""
    path = Path(output).parent / PRIVATE / record_name(output)
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        return record
    except (OSError, ValueError) as problem:
        raise InvalidInput(
            f"Expected the record of the release {output} at {path}, but it cannot be read, so the "
            "cost of that release is unknown: restore it, or name another output."
        ) from problem


def record_name(output: str | Path) -> str:
    """The name of the record of a release, in private/."""
    return f"{Path(output).name}{RECORD}"


def _check(output: Path, reader: Reader) -> None:
    if not output.parent.is_dir():
        raise InvalidInput(f"Expected an existing folder for {output}, got none: create it.")
    if output.exists() and Path(reader.path).exists() and output.samefile(reader.path):
        raise InvalidInput(f"Expected an output other than the input, got {output}: name another.")
    if output.exists() and Path(f"{output}{SUFFIX}").exists():
        raise InvalidInput(
            f"Expected a new output file, got the existing release {output}: name another output; "
            "the cost of both releases adds up."
        )


@contextmanager
def _part_folder(target: Path) -> Iterator[Path]:
    """A hidden folder for unfinished output, for its owner only; removed at the end.

    A killed process leaves it behind, and no statement covers its content: the next release to the
    same output removes it. A process at work has a lock on its folder.
    """
    for left in target.parent.glob(f".*.part.{glob.escape(target.name)}"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left)
    folder = target.with_name(f".{secrets.token_hex(4)}.part.{target.name}")
    folder.mkdir(mode=_FOLDER_MODE)
    try:
        with _locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; OSError if another process has it."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(file)


def _state(output: Path) -> tuple[int, int] | None:
    """Identifies the current manifest of an output."""
    try:
        found = Path(f"{output}{SUFFIX}").stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Let one process at a time publish into a folder, and sync it to disk before leaving."""
    file = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
        os.fsync(file)
    finally:
        os.close(file)
