"""Release a corpus file: one pass, constant memory, atomic output.

The output is written to a temporary file. Then the statement is derived and the manifest published,
and only then is the output renamed into place, so a released file always has a manifest. A manifest
whose output is missing (deleted, or never renamed) still counts: the text may have been read.
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
from sottovoce.deid.files.manifest import Examples, describe_file, manifest, write_manifest
from sottovoce.errors import InvalidInput
from sottovoce.io.run import PRIVATE, SUFFIX, Run

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
    """Release the reader's utterances; return the manifest, with up to `examples` examples.

    Files with the same `call` are parts of one release (see `Deidentifier.release_all`).
    """
    began = time.perf_counter()
    target = Path(output)
    chosen = format or format_of(target)
    columns: Columns | None = reader.columns if chosen in TABLES else None
    _check(target, reader)
    hidden, known, folder = _temporary(target), _state(target), Run.beside(target)
    shown = Examples(examples)
    if Path(f"{target}{SUFFIX}").exists():
        deid.absorb(record_of(target))
        call = None  # Releasing the same text again is a separate release.
    try:
        mode = _create_private(hidden)
        released = released_utterances(deid, track(reader), shown, call=call)
        write(hidden, released, chosen, columns=columns)
        if deid.detector.name == "gold" and not deid.unit_counts.tokens:
            raise InvalidInput(
                f"Expected private annotations in {reader.path}, got none in "
                f"{deid.unit_counts.utterances} utterances: nothing was released."
            )
        content = manifest(
            deid,
            deid.statement(),
            source=reader.path,
            output=describe_file(hidden) | {"name": target.name},
            seconds=time.perf_counter() - began,
            folder=folder,
        )
        if examples:
            content = {**content, "examples": shown.found}
        hidden.chmod(mode)
        with _exclusive(target.parent):
            if _state(target) != known:
                raise InvalidInput(
                    f"Expected {target} to be unchanged, but another process has released to "
                    "it: name another output. This process released nothing."
                )
            folder.write_private(record_name(target), deid.record())
            content = write_manifest(folder, content)
            hidden.replace(target)
    finally:
        hidden.unlink(missing_ok=True)
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


def released_utterances(
    deid: Deidentifier,
    utterances: Iterable[Utterance],
    shown: Examples,
    *,
    call: int | None = None,
    waits: Callable[[], bool] = lambda: False,
) -> Iterator[Utterance]:
    """The released utterances; the first changed ones are added to `shown`."""
    for released in deid.release_all(shown.watch(utterances), call=call, waits=waits):
        shown.add(released.text, released.offsets)
        yield released.utterance


def _temporary(output: Path) -> Path:
    """A temporary name with the same suffix, since the suffix decides about compression."""
    return output.with_name(f".{secrets.token_hex(4)}.part.{output.name}")


def _create_private(hidden: Path) -> int:
    """Create the temporary file for its owner only; return the mode for the finished file.

    A killed process leaves the file behind, and no statement covers its content.
    """
    hidden.touch(exist_ok=False)
    mode = stat.S_IMODE(hidden.stat().st_mode)
    hidden.chmod(0o600)
    return mode


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
