"""The release manifest: what was released, how, and at what cost, in machine-checkable form.

It is the run.json of the verb, in two parts. Public: configuration, versions, seed policy, ledgers,
guarantees, claims and the hash of the output. Private (in private/): name, size and keyed hash of
the input, exact counts, timings and examples. The input hash is keyed because a plain hash could be
reversed by trying candidates. `verify` recomputes the hashes and derives every guarantee again from
the ledgers.
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sottovoce.corpora import Utterance
from sottovoce.deid.deidentifier import Deidentifier
from sottovoce.deid.detect.detector import fingerprint
from sottovoce.deid.detect.measuring import Measuring
from sottovoce.deid.files.alignment import Offsets
from sottovoce.deid.statement.facts import ReplacedValues
from sottovoce.deid.statement.release_statement import ReleaseStatement
from sottovoce.errors import InvalidInput
from sottovoce.io.run import SUFFIX, Run, header
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.ledger import Ledger

PUBLIC = ("configuration", "output", "release", "shards", "sha256")
"""Public fields of a release in addition to those of every run. The guarantee allows the types,
positions and number of private values to be known; the release itself shows the rest."""
WARNING = "The folder private/ holds examples of the original text: guard it like the original."
RELEASED_TEXT, OTHER_TEXT = "the released text", "another text"
_CHUNK = 1 << 20
assert ReplacedValues.kind  # Imported to register the fact kind that ledgers refer to.


def manifest(
    deid: Deidentifier,
    statement: ReleaseStatement,
    *,
    source: str | Path,
    output: Mapping[str, Any],
    seconds: float,
    folder: Run | None = None,
) -> dict[str, Any]:
    """The manifest of a finished release; `output` is its description (see `describe_file`).

    `folder` holds the key for the hash of the input.
    """
    unit = list(statement.guarantees)[-1]
    claims = {
        kind: found.claimed.to_json()
        for kind, found in sorted(statement.types.items())
        if found.claimed is not None
    }
    content: dict[str, Any] = {
        **header("deid"),
        "configuration": deid.to_json(),
        "seed": deid.to_json()["random_numbers"],
        "input": _input(source, folder),
        "made_with": {"detector": fingerprint(deid.detector)},
        "output": dict(output),
        "guarantee": statement.guarantees[unit].to_json(),
        "claimed": claims,
        "ledger": statement.ledgers[unit].to_json(),
        "release": statement.to_json(),
        "metrics": {
            "utterances": deid.unit_counts.utterances,
            "users": deid.unit_counts.users,
            "replaced": dict(sorted(deid.unit_counts.tokens.items())),
        },
        "timings": {"seconds": round(seconds, 3)},
    }
    return content | measured(deid)


def measured(deid: Deidentifier) -> dict[str, Any]:
    """The evaluation of the detector: on the released text if it is annotated, else as given.

    It belongs to the private part: it counts values of the text.
    """
    own = deid.detector.evaluation() if isinstance(deid.detector, Measuring) else None
    unknown = sorted(deid.detector.unknown) if isinstance(deid.detector, Measuring) else []
    if own is not None:
        return {"evaluation": {**own.to_json(), "on": RELEASED_TEXT, "unknown_labels": unknown}}
    if deid.evaluation is not None:
        return {"evaluation": {**deid.evaluation.to_json(), "on": OTHER_TEXT}}
    return {"evaluation": {"on": None, "unknown_labels": unknown}} if unknown else {}


class Examples:
    """Collects the first changed utterances of a release, up to `limit` pairs.

    The "before" side is private text, so a manifest with examples must be protected like the
    original.

    >>> from sottovoce.deid import Deidentifier, Setting
    >>> from sottovoce.deid.detect.detector import utterance_of
    >>> deid = Deidentifier(detector="patterns", setting=Setting(strategy="typed"))
    >>> shown = Examples(1)
    >>> for released in deid.release_all(shown.watch([utterance_of("wake me at noon")])):
    ...     shown.add(released.text, released.offsets)
    >>> shown.found[0]["after"], shown.found[0]["spans_before"]
    ('wake me at [TIME]', [[11, 15, 'TIME']])
    """

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.found: list[dict[str, Any]] = []
        self._waiting: deque[str] = deque()

    @property
    def is_full(self) -> bool:
        return len(self.found) >= self.limit

    def watch(self, utterances: Iterable[Utterance]) -> Iterator[Utterance]:
        """Pass utterances through, and queue their texts until their release is added."""
        for utterance in utterances:
            if not self.is_full:
                self._waiting.append(utterance.text)
            yield utterance

    def add(self, after: str, offsets: Offsets) -> None:
        """Add the release of the oldest queued utterance."""
        if not self._waiting:
            return
        before = self._waiting.popleft()
        if self.is_full:
            self._waiting.clear()
        elif offsets.replacements:
            pieces = offsets.replacements
            self.found.append(
                {
                    "before": before,
                    "after": after,
                    "spans_before": [[each.start, each.end, each.type] for each in pieces],
                    "spans_after": [[each.new_start, each.new_end, each.type] for each in pieces],
                }
            )


def with_hash(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with its recomputed hash."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return rest | {"sha256": _content_hash(rest)}


def describe_file(path: str | Path) -> dict[str, Any]:
    """Name, size and SHA-256 of a file."""
    digest, size = hashlib.sha256(), 0
    with Path(path).open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return {"name": Path(path).name, "bytes": size, "sha256": digest.hexdigest()}


def write_manifest(folder: Run, content: Mapping[str, Any]) -> dict[str, Any]:
    """Write both parts; return the content with the hash of the public part."""
    public, _ = folder.split(content, publish=PUBLIC)
    content = {**content, "sha256": with_hash(public)["sha256"]}
    # An editor of the public part can recompute its hash, but not the keyed one.
    folder.write_run({**content, "seal": _seal(folder, content["sha256"])}, publish=PUBLIC)
    return content


def verify(output: str | Path, *, source: str | Path | None = None) -> dict[str, Any]:
    """Check a released file (and its original, if given) against its manifest; return the manifest.

    Any mismatch raises an error that names it. A fully rewritten manifest is detected where the
    private folder is available; elsewhere only inconsistencies are.
    """
    path = Path(f"{output}{SUFFIX}")
    if not path.is_file():
        raise InvalidInput(f"Expected the manifest of {output} at {path}, found none.")
    folder = Run.beside(output)
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        stated = content.pop("sha256")
        if stated != _content_hash(content):
            raise InvalidInput(
                f"{path}: Expected the manifest as it was written, got an altered one."
            )
        _check_file(path, "output", content["output"], output)
        if source is not None:
            _check_input(folder, content, source)
        _check_guarantees(path, content)
        seal = folder.private_part().get("seal")
        if seal is not None and seal != _seal(folder, stated):
            raise InvalidInput(
                f"{path}: Expected the manifest that this folder was sealed with, got one that was "
                "altered and its hash recomputed."
            )
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as problem:
        raise InvalidInput(f"{path}: Expected a release manifest, but {problem!r}.") from problem
    return folder.read_run(private=True)


def _check_guarantees(path: Path, content: Mapping[str, Any]) -> None:
    """Check that each guarantee follows from its ledger, and that the headline is the last one."""
    stated, ledgers = content["release"]["guarantees"], content["release"]["ledgers"]
    if not stated or {*stated} != {*ledgers}:
        raise InvalidInput(f"{path}: Expected one ledger for every guarantee, got others.")
    for unit, each in ledgers.items():
        claimed, ledger = Guarantee.from_json(stated[unit]), Ledger.from_json(each)
        derived = ledger.guarantee(claimed.delta)
        if derived != claimed or unit != str(ledger.unit):
            raise InvalidInput(
                f"{path}: Expected the guarantee to one {unit} that its ledger gives, "
                f"epsilon {derived.epsilon:g}, got epsilon {claimed.epsilon:g}."
            )
    last = list(stated)[-1]
    if content["guarantee"] != stated[last] or content["ledger"] != ledgers[last]:
        raise InvalidInput(
            f"{path}: Expected the headline guarantee to be the one to one {last}, got another."
        )


def _seal(folder: Run, digest: str) -> str:
    return folder.keyed_hash_of([b"manifest ", digest.encode()])


def _input(source: str | Path, folder: Run | None) -> dict[str, Any]:
    if str(source) == "-":
        return {"name": "-", "bytes": None, "hmac": None}
    path = Path(source)
    keyed = None if folder is None else folder.keyed_hash(path)
    return {"name": path.name, "bytes": path.stat().st_size, "hmac": keyed}


def _check_input(folder: Run, public: Mapping[str, Any], source: str | Path) -> None:
    if "input" in public:  # written before hashes had a key
        _check_file(folder.path, "input", public["input"], source)
        return
    part = folder.private_part()
    if not part:
        raise InvalidInput(
            f"Expected the hash of the input in {folder.path / 'private'}, got nothing: the "
            "original can only be checked with the private folder."
        )
    if part["input"]["hmac"] is None:
        raise InvalidInput("Expected an input file to check, got a stream.")
    if not folder.verify_hash(source, part["input"]["hmac"]):
        raise InvalidInput(
            f"Expected {source} to be the input that the manifest describes "
            f"({part['input']['bytes']} bytes), got another file."
        )


def _check_file(
    manifest_path: Path, role: str, stated: Mapping[str, Any], path: str | Path
) -> None:
    if stated["sha256"] is None:
        raise InvalidInput(f"{manifest_path}: Expected an {role} file to check, got a stream.")
    found = describe_file(path)
    if found["sha256"] != stated["sha256"]:
        raise InvalidInput(
            f"Expected {path} to be the {role} that the manifest describes "
            f"({stated['bytes']} bytes, SHA-256 {stated['sha256'][:12]}...), got another file "
            f"({found['bytes']} bytes, SHA-256 {found['sha256'][:12]}...)."
        )


def _content_hash(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
