"""A folder of files, released file by file: what is finished is not done again.

Each shard is released like a file of its own, with its own manifest. After a crash the shards whose
manifest still fits (the same input, the same configuration, an unaltered output) are skipped. To
one token or utterance the worst shard counts; a user may be in all of them, so epsilons add up.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sottovoce.corpora import Reader
from sottovoce.deid.deidentifier import Deidentifier
from sottovoce.deid.detect.detector import fingerprint
from sottovoce.deid.files.corpus_file import Track, release_file
from sottovoce.deid.files.manifest import verify, write_manifest
from sottovoce.errors import InvalidInput
from sottovoce.io.run_folder import RUN, RunFolder
from sottovoce.privacy.guarantee import Guarantee, Verdict


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
    release = partial(release_file, track=track, examples=examples)
    for reader, name in zip(readers, names, strict=True):
        deid = make()
        done = _finished(deid, reader, target / name)
        resumed += done is not None
        manifests.append(done or release(deid, reader, target / name))
    return write_manifest(
        RunFolder(target),
        {
            "verb": "deid",
            "shards": {
                name: {"sha256": each["output"]["sha256"], "guarantee": each["guarantee"]}
                for name, each in zip(names, manifests, strict=True)
            },
            "configuration": manifests[0]["configuration"],
            "guarantees": {unit: found.to_json() for unit, found in together(manifests).items()},
            "metrics": {
                "shards": len(names),
                "resumed": resumed,
                "utterances": sum(each["metrics"]["utterances"] for each in manifests),
            },
        },
    )


def together(manifests: Iterable[dict[str, Any]]) -> dict[str, Guarantee]:
    """What holds for all shards: the worst for tokens and utterances, the sum for users."""
    stated = [
        {unit: Guarantee.from_json(said) for unit, said in each["release"]["guarantees"].items()}
        for each in manifests
    ]
    units = [unit for unit in stated[0] if all(unit in each for each in stated)]
    return {unit: _joined([each[unit] for each in stated], unit) for unit in units}


def _joined(guarantees: Sequence[Guarantee], unit: str) -> Guarantee:
    add = sum if unit == "user" else max
    worst = max(guarantees, key=lambda each: each.epsilon)
    fails = [reason for each in guarantees if not each.holds for reason in each.reasons]
    return replace(
        worst,
        epsilon=add(each.epsilon for each in guarantees),
        delta=add(each.delta for each in guarantees),
        verdict=Verdict.NO_GUARANTEE if fails else Verdict.HOLDS,
        reasons=tuple(dict.fromkeys(fails)),
        assumptions=_once(each.assumptions for each in guarantees),
        not_covered=_once(each.not_covered for each in guarantees),
        accountant=f"{worst.accountant}, {'added over' if unit == 'user' else 'worst of'} shards",
    )


def _once(sentences: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sentence for each in sentences for sentence in each))


def _finished(deid: Deidentifier, reader: Reader, output: Path) -> dict[str, Any] | None:
    """The manifest of a shard that was released before, if it still fits."""
    try:
        content = verify(output, source=reader.path)
    except (InvalidInput, OSError):
        return None
    mine, its = deid.to_json(), content["configuration"]
    # Mechanisms are made as types are met, so a finished run knows more of them.
    same = all(mine[key] == its.get(key) for key in mine if key != "mechanisms")
    same &= content.get("made_with") == {"detector": fingerprint(deid.detector)}
    return content if same else None
