"""Reserve before a release, settle after it, and refuse what would exceed the policy."""

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from sottovoce.book import anchors
from sottovoce.book.records import Record, record, verified
from sottovoce.book.stores import URLS, Store, store_at
from sottovoce.book.totals import Entry, Totals, objection, totals_of
from sottovoce.errors import BudgetExceeded, InvalidInput, LedgerDamaged
from sottovoce.io import signatures
from sottovoce.privacy.composition import Part
from sottovoce.privacy.policy import Policy

KEY_VARIABLE = "SOTTOVOCE_BOOK_KEY"
EVERYONE = "everyone"


@dataclass(frozen=True)
class Reservation:
    """What was set aside for a release that is about to run."""

    id: str
    people: str
    no_user_total: bool = False


class Book:
    """A book that is open for writing and reading.

    Facts of released text are known once `sottovoce.deid` was imported.
    """

    def __init__(self, store: Store, key: Path | None) -> None:
        self._store, self._key = store, key
        self.records = verified(store.records())
        anchors.compare_and_keep(self.id, self.records, self._reread)

    @classmethod
    def create(cls, place: str, policy: Policy, key: str | Path | None = None) -> Self:
        """Start a new book under a policy; the key is made unless it is given."""
        chosen = _key_path(place, key)
        if chosen is None:
            raise InvalidInput(
                f"Expected the file of the book's key with --key or {KEY_VARIABLE}, got none."
            )
        store = store_at(place)
        if not place.startswith(URLS) and Path(place).exists():
            raise InvalidInput(f"Expected a new file for the book, but {place} exists.")
        if not chosen.exists():
            signatures.make_key(chosen)
        private = signatures.read_private_key(chosen)
        store.create(
            record(
                private,
                None,
                {
                    "book": secrets.token_hex(8),
                    "at": _now(),
                    "policy": policy.to_json(),
                    "public_key": signatures.public_key_of(private),
                },
            )
        )
        return cls(store, chosen)

    @classmethod
    def open(cls, place: str, key: str | Path | None = None) -> Self:
        """Open a book; its chain, its signatures and its anchor are checked."""
        if not place.startswith(URLS) and not Path(place).is_file():
            raise InvalidInput(f"Expected a book at {place}, found none: make it with `book init`.")
        return cls(store_at(place), _key_path(place, key))

    @property
    def id(self) -> str:
        return str(self.records[0].content.get("book", ""))

    @property
    def public_key(self) -> str:
        return str(self.records[0].content["public_key"])

    @property
    def policy(self) -> Policy:
        return Policy.from_json(self.records[0].content["policy"])

    @property
    def anchor(self) -> str:
        """The head of the book, to store elsewhere."""
        return anchors.anchor_of(self.records[-1])

    def check_anchor(self, anchor: str) -> None:
        anchors.check(anchor, self.records, "the anchor that was given")

    def entries(self) -> list[Entry]:
        """All releases; those that were cancelled because nothing was spent are left out."""
        return _entries(self.records)

    def totals(self) -> dict[str, Totals]:
        return totals_of(self.entries())

    def reserve(
        self, parts: Sequence[Part], *, verb: str, people: str = EVERYONE, note: str = ""
    ) -> Reservation:
        """Set aside what a release will spend, or refuse it; nothing has run yet."""
        if not people.strip():
            raise InvalidInput("Expected a name of the people in the data, got none.")
        made = Reservation(
            secrets.token_hex(8), people, any(part.to_user is None for part in parts)
        )
        content: dict[str, Any] = {
            "reserve": made.id,
            "at": _now(),
            "verb": verb,
            "people": people,
            "parts": [part.to_json() for part in parts],
            "machine": socket.gethostname(),
            "process": os.getpid(),
            "note": note,
        }
        if made.no_user_total:
            content["user_total"] = "none: nobody declared how much a user contributes at most"

        def allowed(entries: list[Entry]) -> None:
            own = [entry for entry in entries if entry.people == people]
            if reason := objection(own, parts, self.policy):
                raise BudgetExceeded(
                    f"Expected a release within the policy of the book, but {reason}: nothing was "
                    "released."
                )

        self._append(content, allowed)
        return made

    def settle(
        self,
        reservation: str,
        parts: Sequence[Part],
        *,
        ledgers: Mapping[str, Any] | None = None,
        artifacts: Mapping[str, str] | None = None,
    ) -> None:
        """Record what was spent, and the hashes of what was released."""

        def is_open(entries: list[Entry]) -> None:
            _check_open(entries, reservation)

        self._append(
            {
                "settle": reservation,
                "at": _now(),
                "parts": [part.to_json() for part in parts],
                "ledgers": dict(ledgers or {}),
                "artifacts": dict(artifacts or {}),
            },
            is_open,
        )

    def cancel(self, reservation: str, why: str) -> None:
        """Take back a reservation of which nothing was spent."""

        def is_open(entries: list[Entry]) -> None:
            _check_open(entries, reservation)

        self._append({"cancel": reservation, "at": _now(), "why": why}, is_open)

    def is_open(self, reservation: str) -> bool:
        return any(each.id == reservation and not each.settled for each in self.entries())

    def _append(self, content: Mapping[str, Any], check: Any) -> None:
        private = self._private_key()
        with self._store.writing() as (found, append):
            records = verified(found)
            anchors.compare_and_keep(self.id, records, lambda: records)
            check(_entries(records))
            new = record(private, records[-1], content)
            append(new)
        self.records = [*records, new]
        anchors.compare_and_keep(self.id, self.records, self._reread)

    def _reread(self) -> list[Record]:
        self.records = verified(self._store.records())
        return self.records

    def _private_key(self) -> Any:
        if self._key is None or not self._key.is_file():
            raise InvalidInput(
                f"Expected the key of the book in {self._key or KEY_VARIABLE}, found none: only "
                "who has the key may write."
            )
        private = signatures.read_private_key(self._key)
        if signatures.public_key_of(private) != self.public_key:
            raise InvalidInput(f"Expected the key of this book in {self._key}, got another key.")
        return private


def _entries(records: Sequence[Record]) -> list[Entry]:
    found: dict[str, Entry] = {}
    for each in records[1:]:
        content = each.content
        try:
            if "reserve" in content:
                found[content["reserve"]] = Entry(
                    id=content["reserve"],
                    at=content["at"],
                    verb=content["verb"],
                    people=content["people"],
                    parts=_parts(content["parts"]),
                    settled=False,
                    artifacts={},
                    note=content["note"],
                )
            elif "settle" in content:
                open_ = found[content["settle"]]
                found[open_.id] = Entry(
                    id=open_.id,
                    at=open_.at,
                    verb=open_.verb,
                    people=open_.people,
                    parts=_parts(content["parts"]),
                    settled=True,
                    artifacts=dict(content["artifacts"]),
                    note=open_.note,
                )
            elif "cancel" in content:
                del found[content["cancel"]]
            else:
                raise KeyError("an unknown record")
        except (LookupError, TypeError, ValueError, AttributeError) as problem:
            raise LedgerDamaged(
                f"Expected a record of a release in record {each.n} of the book, but {problem!r}."
            ) from problem
    return list(found.values())


def _parts(data: Any) -> tuple[Part, ...]:
    return tuple(Part.from_json(each) for each in data)


def _check_open(entries: Sequence[Entry], reservation: str) -> None:
    if not any(each.id == reservation and not each.settled for each in entries):
        raise InvalidInput(f"Expected an open reservation, got {reservation!r}.")


def _key_path(place: str, key: str | Path | None) -> Path | None:
    if key is not None:
        return Path(key)
    if given := os.environ.get(KEY_VARIABLE):
        return Path(given)
    return None if place.startswith(URLS) else Path(f"{place}.key")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
