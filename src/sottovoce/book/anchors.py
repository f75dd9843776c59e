"""A second place for the head of a book, so that a copy that was rolled back is noticed.

Every process that writes to a book or reads it keeps its newest head in a folder of the user. A
book that does not contain that head is older than what was seen, or another history. The head is
printed as `N:HASH`: write it down elsewhere and pass it to `book check --anchor`.
"""

import fcntl
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sottovoce.book.records import Record
from sottovoce.errors import InvalidInput, LedgerDamaged
from sottovoce.io.atomic import text_output

FOLDER = "SOTTOVOCE_ANCHORS"


def folder() -> Path:
    """Where heads are kept."""
    if given := os.environ.get(FOLDER):
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "sottovoce", "books")


def anchor_of(record: Record) -> str:
    return f"{record.n}:{record.sha256}"


def check(anchor: str, records: Sequence[Record], where: str) -> None:
    """Refuse a book that does not contain the anchor."""
    number, _, digest = anchor.partition(":")
    if not number.isdecimal() or len(digest) != 64:
        raise InvalidInput(f"Expected an anchor such as 12:4f0c... (64 digits), got {anchor!r}.")
    n = int(number)
    if n > len(records):
        raise LedgerDamaged(
            f"Expected at least {n} records in the book, as seen before ({where}), got "
            f"{len(records)}: it was rolled back to an older copy. Restore the newest one."
        )
    if n < 1 or records[n - 1].sha256 != digest:
        raise LedgerDamaged(
            f"Expected record {n} of the book as seen before ({where}), got another: it has "
            "another history. Restore the book that was there."
        )


def compare_and_keep(
    book: str, records: Sequence[Record], again: Callable[[], Sequence[Record]]
) -> None:
    """Compare a book with the newest head that was seen, and keep its own.

    `again` reads the records once more: another process may have added some, and kept its head.
    """
    place = folder()
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = place / f"{book}.json"
    handle = os.open(place / f"{book}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        kept = _read(path)
        if kept is not None:
            if int(kept.partition(":")[0]) > len(records):
                records = again()
            check(kept, records, str(path))
        if kept != anchor_of(records[-1]):
            with text_output(path, mode=0o600) as stream:
                json.dump({"anchor": anchor_of(records[-1])}, stream)
    finally:
        os.close(handle)


def _read(path: Path) -> str | None:
    try:
        found = json.loads(path.read_bytes())["anchor"]
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError) as problem:
        raise LedgerDamaged(f"Expected the head of a book in {path}, got: {problem!r}.") from (
            problem
        )
    if not isinstance(found, str) or not found.partition(":")[0].isdecimal():
        raise LedgerDamaged(f"Expected the head of a book in {path}, got {found!r}.")
    return found
