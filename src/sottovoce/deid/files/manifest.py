"""The release manifest: what was released, how, and what it costs, for machines to check.

It is the run.json of the verb, in two parts. What may be shared: configuration, versions, seed
policy, ledgers, guarantees, claims and the hash of the output. What is kept in private/: the name,
size and keyed hash of the input, exact counts, timings and examples. A plain hash of the input
would tell a name to whoever tries out all names. `verify` recomputes the hashes and derives every
guarantee again from the ledgers.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sottovoce import __version__
from sottovoce.deid.deidentifier import Deidentifier
from sottovoce.deid.detect.detector import fingerprint
from sottovoce.deid.statement.facts import ReplacedValues
from sottovoce.deid.statement.release_statement import ReleaseStatement
from sottovoce.errors import InvalidInput
from sottovoce.io.run_folder import RunFolder
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.ledger import Ledger

SUFFIX = ".run.json"
PUBLIC = ("configuration", "output", "release", "shards", "sha256")
"""What a release shares besides what every run shares. Types, places and numbers of private values
may be known by the terms of its guarantee, and the release shows the rest."""
_CHUNK = 1 << 20
assert ReplacedValues.kind  # Reading a ledger needs the kinds of its facts to be known.


def manifest(
    deid: Deidentifier,
    statement: ReleaseStatement,
    *,
    source: str | Path,
    output: str | Path,
    seconds: float,
    folder: RunFolder | None = None,
) -> dict[str, Any]:
    """The manifest of a finished release; `output` is the file as it will be published.

    `folder` has the key for the hash of the input.
    """
    unit = list(statement.guarantees)[-1]
    claims = {
        kind: found.claimed.to_json()
        for kind, found in sorted(statement.types.items())
        if found.claimed is not None
    }
    content: dict[str, Any] = {
        "verb": "deid",
        "versions": {"sottovoce": __version__},
        "configuration": deid.to_json(),
        "seed": deid.to_json()["random_numbers"],
        "input": _input(source, folder),
        "made_with": {"detector": fingerprint(deid.detector)},
        "output": described(output),
        "guarantee": statement.guarantees[unit].to_json(),
        "claimed": claims,
        "ledger": statement.ledgers[unit].to_json(),
        "release": statement.to_json(),
        "metrics": {
            "utterances": deid.tally.utterances,
            "users": deid.tally.users,
            "replaced": dict(sorted(deid.tally.tokens.items())),
        },
        "timings": {"seconds": round(seconds, 3)},
    }
    return content


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with its own hash, made anew."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return rest | {"sha256": _own_hash(rest)}


def described(path: str | Path) -> dict[str, Any]:
    """Name, size and SHA-256 of a file; a stream has none of them."""
    if str(path) == "-":
        return {"name": "-", "bytes": None, "sha256": None}
    digest, size = hashlib.sha256(), 0
    with Path(path).open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return {"name": Path(path).name, "bytes": size, "sha256": digest.hexdigest()}


def write_manifest(folder: RunFolder, content: Mapping[str, Any]) -> dict[str, Any]:
    """Write both parts; return the content with the hash of what is public."""
    public, _ = folder.split(content, publish=PUBLIC)
    content = {**content, "sha256": sealed(public)["sha256"]}
    # Whoever alters what is public can make its hash anew, but not the one with the key.
    folder.write_run({**content, "seal": _seal(folder, content["sha256"])}, publish=PUBLIC)
    return content


def verify(output: str | Path, *, source: str | Path | None = None) -> dict[str, Any]:
    """Check a released file (and its original, if given) against its manifest; return that.

    Any difference is refused with a sentence that names it. A manifest that somebody wrote anew
    from end to end is noticed where its private folder is; elsewhere only what does not fit is.
    """
    path = Path(f"{output}{SUFFIX}")
    if not path.is_file():
        raise InvalidInput(f"Expected the manifest of {output} at {path}, found none.")
    folder = RunFolder.beside(output)
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        stated = content.pop("sha256")
        if stated != _own_hash(content):
            raise InvalidInput(f"{path}: Expected the manifest as it was written; it was altered.")
        _check_file(path, "output", content["output"], output)
        if source is not None:
            _check_input(folder, content, source)
        _check_guarantees(path, content)
        seal = folder.private_part().get("seal")
        if seal is not None and seal != _seal(folder, stated):
            raise InvalidInput(
                f"{path}: Expected the manifest that this folder was sealed with; it was altered, "
                "and its hash made anew."
            )
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as problem:
        raise InvalidInput(f"{path}: Expected a release manifest, but {problem!r}.") from problem
    return folder.read_run(private=True)


def _check_guarantees(path: Path, content: Mapping[str, Any]) -> None:
    """Every guarantee is the one that its ledger gives, and the first of all is one of them."""
    stated, ledgers = content["release"]["guarantees"], content["release"]["ledgers"]
    if not stated or {*stated} != {*ledgers}:
        raise InvalidInput(f"{path}: Expected a ledger beside every guarantee, got others.")
    for unit, each in ledgers.items():
        said, ledger = Guarantee.from_json(stated[unit]), Ledger.from_json(each)
        derived = ledger.guarantee(said.delta)
        if derived != said or unit != str(ledger.unit):
            raise InvalidInput(
                f"{path}: Expected the guarantee to one {unit} that its ledger gives, "
                f"epsilon {derived.epsilon:g}, got epsilon {said.epsilon:g}."
            )
    last = list(stated)[-1]
    if content["guarantee"] != stated[last] or content["ledger"] != ledgers[last]:
        raise InvalidInput(
            f"{path}: Expected the guarantee to one {last} to stand first, as the release states "
            "it, got another one."
        )


def _seal(folder: RunFolder, digest: str) -> str:
    return folder.keyed_hash_of([b"manifest ", digest.encode()])


def _input(source: str | Path, folder: RunFolder | None) -> dict[str, Any]:
    if str(source) == "-":
        return {"name": "-", "bytes": None, "hmac": None}
    path = Path(source)
    keyed = None if folder is None else folder.keyed_hash(path)
    return {"name": path.name, "bytes": path.stat().st_size, "hmac": keyed}


def _check_input(folder: RunFolder, public: Mapping[str, Any], source: str | Path) -> None:
    if "input" in public:  # written before hashes had a key
        _check_file(folder.path, "input", public["input"], source)
        return
    part = folder.private_part()
    if not part:
        raise InvalidInput(
            f"Expected what is kept of the input in {folder.path / 'private'}, found nothing: only "
            "who has the private folder can check the original."
        )
    if part["input"]["hmac"] is None:
        raise InvalidInput("The input was a stream, so there is nothing to check.")
    if not folder.verify_hash(source, part["input"]["hmac"]):
        raise InvalidInput(
            f"Expected {source} to be the input that the manifest describes "
            f"({part['input']['bytes']} bytes), got another file."
        )


def _check_file(manifest_path: Path, role: str, said: Mapping[str, Any], path: str | Path) -> None:
    if said["sha256"] is None:
        raise InvalidInput(
            f"{manifest_path}: The {role} was a stream, so there is nothing to check."
        )
    found = described(path)
    if found["sha256"] != said["sha256"]:
        raise InvalidInput(
            f"Expected {path} to be the {role} that the manifest describes "
            f"({said['bytes']} bytes, SHA-256 {said['sha256'][:12]}...), got another file "
            f"({found['bytes']} bytes, SHA-256 {found['sha256'][:12]}...)."
        )


def _own_hash(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
