"""Records of a book: each holds the hash of the one before, and is signed with Ed25519."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.errors import LedgerDamaged
from sottovoce.io import signatures

START = "0" * 64


@dataclass(frozen=True)
class Record:
    """One line of the book. `body` is the text that was hashed and signed."""

    n: int
    body: str
    previous: str
    sha256: str
    signature: str

    @property
    def content(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


def record(key: Ed25519PrivateKey, last: "Record | None", content: Mapping[str, Any]) -> "Record":
    """The next record after `last`."""
    n, previous = (1, START) if last is None else (last.n + 1, last.sha256)
    body = signatures.canonical(dict(content)).decode()
    digest = _hash(n, previous, body)
    return Record(n, body, previous, digest, signatures.sign(key, digest.encode()))


def verified(records: Iterable[Record]) -> list[Record]:
    """The records, if every one of them follows the one before and is signed by the same key.

    The key is that of the first record; whoever opens the book compares it with an anchor.
    """
    checked: list[Record] = []
    public_key = ""
    for each in records:
        expected = (checked[-1].n + 1, checked[-1].sha256) if checked else (1, START)
        if (each.n, each.previous) != expected:
            raise LedgerDamaged(
                f"Expected record {expected[0]} of the book to follow the one before, got record "
                f"{each.n}: records were removed, inserted or moved. Restore the book from a copy."
            )
        if each.sha256 != _hash(each.n, each.previous, each.body):
            raise LedgerDamaged(
                f"Expected record {each.n} of the book to match its hash: it was altered. Restore "
                "the book from a copy."
            )
        try:
            content = each.content
            if not checked:
                public_key = str(content["public_key"])
        except (ValueError, LookupError, TypeError, RecursionError) as problem:
            raise LedgerDamaged(f"Expected JSON in record {each.n}, got: {problem!r}.") from problem
        if not signatures.is_signed(public_key, each.sha256.encode(), each.signature):
            raise LedgerDamaged(
                f"Expected record {each.n} to be signed with the key of the book, got another "
                "signature: somebody without the key has written it."
            )
        checked.append(each)
    if not checked:
        raise LedgerDamaged("Expected a book, got one without records.")
    return checked


def _hash(n: int, previous: str, body: str) -> str:
    return hashlib.sha256(f"{n}\n{previous}\n{body}".encode()).hexdigest()
