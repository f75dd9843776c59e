"""A folder of files, released file by file: what is finished is not done again.

Each shard is released like a file of its own, with its own manifest. After a crash the shards whose
manifest still fits (the same input, the same configuration, an unaltered output) are skipped. An
utterance or a user may be in several shards, so the statement is made of the records of all.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sottovoce.corpora import Reader
from sottovoce.deid.deidentifier import Deidentifier
from sottovoce.deid.detect.detector import fingerprint
from sottovoce.deid.files.corpus_file import RECORD, Track, record_of, release_file
from sottovoce.deid.files.manifest import verify, write_manifest
from sottovoce.errors import InvalidInput
from sottovoce.io.run_folder import RUN, RunFolder


def release_shards(
    make: Callable[[], Deidentifier],
    readers: Sequence[Reader],
    folder: str | Path,
    *,
    track: Track = iter,
    examples: int = 0,
) -> dict[str, Any]:
    """Release every reader's file under its own name into `folder`; return the joint manifest.

    `make` makes a fresh de-identifier for each shard, always of the same configuration.
    """
    target = Path(folder)
    names = [Path(reader.path).name for reader in readers]
    if len({*names}) != len(names) or not names:
        raise InvalidInput("Expected at least one shard, and another name for each.")
    if RUN in (f"{name}.json" for name in names):
        raise InvalidInput("Expected a shard of another name than run: run.json is the folder's.")
    if target.exists() and not target.is_dir():
        raise InvalidInput(f"Expected a folder to write to, got the file {target}.")
    target.mkdir(exist_ok=True)
    manifests = []
    resumed = 0
    folder_of_run = RunFolder(target)
    release = partial(release_file, track=track, examples=examples, call=_call(folder_of_run))
    for reader, name in zip(readers, names, strict=True):
        deid = make()
        done = _finished(deid, reader, target / name)
        resumed += done is not None
        manifests.append(done or release(deid, reader, target / name))
    joint = make()
    # Also of shards that are not among the readers any more: they were released with the rest.
    for record in sorted(folder_of_run.private_folder.glob(f"*{RECORD}")):
        joint.absorb(record_of(target / record.name.removesuffix(RECORD)))
    statement = joint.statement()
    unit = list(statement.guarantees)[-1]
    return write_manifest(
        folder_of_run,
        {
            "verb": "deid",
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
        },
    )


def _call(folder: RunFolder) -> int:
    """The number of the release in this folder: the same after an interruption, secret outside."""
    return int(folder.keyed_hash_of([b"one release"])[:16], 16)


def _finished(deid: Deidentifier, reader: Reader, output: Path) -> dict[str, Any] | None:
    """The manifest of a shard that was released before, if it still fits."""
    try:
        content = verify(output, source=reader.path)
        record_of(output)
    except (InvalidInput, OSError):
        return None
    mine, its = deid.to_json(), content["configuration"]
    # Mechanisms are made as types are met, so a finished run knows more of them.
    same = all(mine[key] == its.get(key) for key in mine if key != "mechanisms")
    same &= content.get("made_with") == {"detector": fingerprint(deid.detector)}
    return content if same else None
