"""Release a folder of files, shard by shard; finished shards are skipped on resume.

Each shard is released as a separate file with its own manifest. After a crash, shards whose
manifest is still valid (same input, same configuration, unaltered output) are skipped. An utterance
or a user may occur in several shards, so the statement is derived from the records of all of them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sottovoce.corpora import Reader
from sottovoce.deid.deidentifier import Deidentifier
from sottovoce.deid.detect.detector import fingerprint
from sottovoce.deid.files.corpus_file import RECORD, record_of, release_file
from sottovoce.deid.files.manifest import measured, verify, write_manifest
from sottovoce.deid.files.workers import Track
from sottovoce.errors import InvalidInput
from sottovoce.io.run import RUN, Run, header


def release_shards(
    make: Callable[[], Deidentifier],
    readers: Sequence[Reader],
    folder: str | Path,
    *,
    track: Track = iter,
    examples: int = 0,
    workers: int = 1,
    before: Callable[[dict[str, Any]], None] = lambda manifest: None,
) -> dict[str, Any]:
    """Release every reader's file under its own name into `folder`; return the joint manifest.

    `make` builds a new de-identifier for each shard, always with the same configuration.
    """
    target = Path(folder)
    names = [Path(reader.path).name for reader in readers]
    if len({*names}) != len(names) or not names:
        raise InvalidInput(f"Expected at least one shard, with unique names, got {names}.")
    if RUN in (f"{name}.json" for name in names):
        raise InvalidInput(
            "Expected a shard not named run, got one: run.json belongs to the folder."
        )
    if target.exists() and not target.is_dir():
        raise InvalidInput(f"Expected a folder to write to, got the file {target}.")
    target.mkdir(exist_ok=True)
    manifests = []
    resumed = 0
    folder_of_run = Run(target)
    release = partial(
        release_file,
        track=track,
        examples=examples,
        call=_call(folder_of_run),
        workers=workers,
        before=before,
    )
    for reader, name in zip(readers, names, strict=True):
        deid = make()
        done = _finished(deid, reader, target / name)
        resumed += done is not None
        manifests.append(done or release(deid, reader, target / name))
    joint = make()
    # Including shards whose readers are gone: they were part of the release.
    for record in sorted(folder_of_run.private_folder.glob(f"*{RECORD}")):
        joint.absorb(record_of(target / record.name.removesuffix(RECORD)))
    statement = joint.statement()
    unit = list(statement.guarantees)[-1]
    return write_manifest(
        folder_of_run,
        {
            **header("deid"),
            "shards": {
                name: {"sha256": each["output"]["sha256"], "guarantee": each["guarantee"]}
                for name, each in zip(names, manifests, strict=True)
            },
            "configuration": manifests[0]["configuration"],
            "guarantee": statement.guarantees[unit].to_json(),
            "guarantees": {unit: each.to_json() for unit, each in statement.guarantees.items()},
            "ledger": statement.ledgers[unit].to_json(),
            "release": statement.to_json(),
            "metrics": {
                "shards": len(names),
                "resumed": resumed,
                "utterances": sum(each["metrics"]["utterances"] for each in manifests),
            },
            **measured(joint),
        },
    )


def _call(folder: Run) -> int:
    """The id of the release in this folder: stable across restarts, secret to others."""
    return int(folder.keyed_hash_of([b"one release"])[:16], 16)


def _finished(deid: Deidentifier, reader: Reader, output: Path) -> dict[str, Any] | None:
    """The manifest of a shard that was released before, if it is still valid."""
    try:
        content = verify(output, source=reader.path)
        record_of(output)
    except (InvalidInput, OSError):
        return None
    current, stored = deid.to_json(), content["configuration"]
    # Mechanisms are created on first use, so a finished run has more of them.
    same = all(current[key] == stored.get(key) for key in current if key != "mechanisms")
    same &= content.get("made_with") == {"detector": fingerprint(deid.detector)}
    return content if same else None
