"""A signed page: who decided what about which files, in a form that cannot be altered later.

PAGE.signed.json states the decision, the policy, the version, the date, the author and the scope,
with the hashes of the page and of every file it is about, and is signed with Ed25519.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sottovoce import __version__
from sottovoce.errors import InvalidInput
from sottovoce.io import signatures
from sottovoce.io.atomic import text_output
from sottovoce.report.evidence import files_of, sha256
from sottovoce.report.render import Report

SUFFIX = ".signed.json"
FORMAT = 1


@dataclass(frozen=True)
class Verification:
    """What a signature says, and where it does not fit what is there."""

    statement: dict[str, Any]
    public_key: str
    problems: tuple[str, ...]
    checked: int

    def lines(self) -> list[str]:
        said = self.statement
        return [
            f"{said['decision'].capitalize()}, under the policy {said['policy']['name']}.",
            f"Signed on {said['date']} by {said['author'] or 'somebody without a name'}, key "
            f"{signatures.fingerprint(self.public_key)}, with sottovoce {said['sottovoce']}.",
            f"{self.checked} files {'match' if not self.problems else 'were compared'}.",
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "statement": self.statement,
            "public_key": self.public_key,
            "problems": list(self.problems),
            "files": self.checked,
        }


def sign_page(report: Report, page: str | Path, key_file: str | Path) -> Path:
    """Write PAGE.signed.json."""
    page = Path(page)
    key = signatures.read_private_key(key_file)
    statement = {
        "format": FORMAT,
        **report.judgement.to_json(),
        "title": report.title,
        "page": {"name": page.name, "sha256": sha256(page)},
        "stages": [
            {
                "name": stage.name,
                "verb": stage.verb,
                "released": not stage.reference,
                "files": {
                    what: {
                        "path": os.path.relpath(path, page.resolve().parent),
                        "sha256": sha256(path),
                    }
                    for what, path in files_of(stage.path, stage.verb).items()
                },
            }
            for stage in report.stages
        ],
        "policy": {**report.policy.to_json(), "sha256": report.policy.sha256},
        "sottovoce": __version__,
        "code": _code_hash(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "author": report.author,
        "scope": report.scope,
    }
    signed = {
        "statement": statement,
        "public_key": signatures.public_key_of(key),
        "signature": signatures.sign(key, signatures.canonical(statement)),
    }
    path = Path(f"{page}{SUFFIX}")
    with text_output(path) as stream:
        json.dump(signed, stream, indent=2, ensure_ascii=False, allow_nan=False)
        stream.write("\n")
    return path


def verify_page(
    page: str | Path, key_file: str | Path | None = None, folder: str | Path | None = None
) -> Verification:
    """Compare a page and the files it is about with what was signed."""
    page = Path(page)
    path = Path(f"{page}{SUFFIX}")
    if not path.is_file():
        raise InvalidInput(f"Expected the signature of {page} at {path}, found none.")
    try:
        signed = json.loads(path.read_bytes())
        statement, public_key = dict(signed["statement"]), str(signed["public_key"])
        signature = str(signed["signature"])
        message = signatures.canonical(statement)
        stated = {str(statement["page"]["name"]): (page, str(statement["page"]["sha256"]))}
        start = page.resolve().parent if folder is None else Path(folder)
        for stage in statement["stages"]:
            for what, file in stage["files"].items():
                found = start / str(file["path"])
                stated[f"{stage['name']}: {what}"] = (found, str(file["sha256"]))
        _ = statement["decision"].capitalize(), statement["policy"]["name"]
        _ = statement["date"], statement["author"], statement["sottovoce"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as problem:
        raise InvalidInput(f"Expected a signed page in {path}, got: {problem!r}.") from problem
    problems = []
    if not signatures.is_signed(public_key, message, signature):
        problems.append("the statement is not what was signed: it was altered after signing")
    if key_file is not None and signatures.read_public_key(key_file) != public_key:
        problems.append(f"it was signed with another key than {key_file}")
    for what, (found, digest) in stated.items():
        if not found.is_file():
            problems.append(f"{what} is missing: {found}")
        elif sha256(found) != digest:
            problems.append(f"{what} was altered after signing: {found}")
    return Verification(statement, public_key, tuple(problems), len(stated))


def _code_hash() -> str:
    """The hash of the code that made the decision."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
