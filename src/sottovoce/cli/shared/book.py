"""`--book`: charge what a verb releases to a book, before it runs.

The verb reserves what it plans to spend, and settles what it has spent. If it fails before it has
spent anything, the reservation is taken back; if it is killed, the reservation stays spent.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sottovoce.io.run import PRIVATE, RESERVED, Run

if TYPE_CHECKING:
    from sottovoce.book import Book
    from sottovoce.privacy.composition import Part

Command = TypeVar("Command", bound=Callable[..., Any])


def book_options(command: Command) -> Command:
    """Add `--book` and `--people`."""
    command = click.option(
        "--people",
        default="everyone",
        show_default=True,
        help="Name of the people in the data, for the totals of the book.",
    )(command)
    return click.option(
        "--book",
        "book",
        envvar="SOTTOVOCE_BOOK",
        show_envvar=True,
        help="Book to charge (a file or a postgresql:// URL): refuses before it runs what would "
        "exceed the book's policy.",
    )(command)


def open_book(place: str) -> "Book":
    """Open a book; the facts of all verbs can be read."""
    import sottovoce.deid.statement.facts  # noqa: F401
    from sottovoce.book import Book

    return Book.open(place)


class Charge:
    """The reservation of a running verb; without a book it does nothing."""

    def __init__(self, book: "Book | None" = None, reservation: str = "") -> None:
        self.book, self.reservation = book, reservation

    def settle(
        self,
        parts: "Sequence[Part]",
        *,
        ledgers: Mapping[str, Any] | None = None,
        artifacts: Mapping[str, str] | None = None,
    ) -> None:
        if self.book is not None:
            self.book.settle(self.reservation, parts, ledgers=ledgers, artifacts=artifacts)

    def settle_run(self, folder: Path) -> None:
        """Settle by the run file of a folder: its ledger, its delta and its hashes."""
        if self.book is None:
            return
        run = Run(folder).read_run()
        self.settle(
            parts_of_run(folder.name, run),
            ledgers={"head": run["ledger"]["head"]} if run.get("ledger") else {},
            artifacts={"weights": run["weights"]} if run.get("weights") else {},
        )
        (folder / PRIVATE / RESERVED).unlink(missing_ok=True)


class Charges:
    """Charges of releases whose cost is known only when they are about to be published."""

    def __init__(self, place: str | None, people: str, verb: str) -> None:
        self._book = None if place is None else open_book(place)
        self._people, self._verb = people, verb
        self._pending: list[tuple[str, list[Part], dict[str, str]]] = []

    def reserve(self, manifest: Mapping[str, Any]) -> None:
        """Charge a release before it is published, or refuse it."""
        if self._book is None:
            return
        name, digest = manifest["output"]["name"], manifest["output"]["sha256"]
        parts = parts_of_run(name, manifest)
        made = self._book.reserve(parts, verb=self._verb, people=self._people)
        self._pending.append((made.id, parts, {name: digest}))

    def settle(self) -> None:
        for reservation, parts, artifacts in self._pending:
            assert self._book is not None
            self._book.settle(reservation, parts, artifacts=artifacts)


def unprotected(name: str, unit: str, reason: str) -> "Part":
    """A release without a guarantee."""
    from sottovoce.privacy.accounting import Entry
    from sottovoce.privacy.composition import Part
    from sottovoce.privacy.facts import Unprotected
    from sottovoce.privacy.guarantee import Relation, Unit

    fact = Unprotected(unit=Unit(unit), reason=reason)
    return Part(
        name=name, unit=Unit(unit), relation=Relation.ADD_OR_REMOVE, delta=0.0,
        entries=(Entry(fact),),
    )  # fmt: skip


def planned_training(name: str, plan: Any, group_size: int | None) -> "Part":
    """What a training will spend, from its plan."""
    from sottovoce.privacy.composition import Part

    if plan.method == "sgd":
        return unprotected(name, plan.unit, "plain SGD adds no noise")
    return Part(
        name=name,
        unit=plan.unit,
        relation=plan.neighbours,
        delta=plan.delta,
        entries=tuple(plan.recipe().entries()),
        group_size=None if plan.unit == "user" else group_size,
    )


def parts_of_run(name: str, run: Mapping[str, Any]) -> "list[Part]":
    """What a run has spent, from its ledger: that of users, or else the one it has."""
    from sottovoce.privacy.composition import Part
    from sottovoce.privacy.ledger import Ledger

    by_unit = (run.get("release") or {}).get("ledgers") or {"": run["ledger"]}
    ledgers = [Ledger.from_json(each) for each in by_unit.values()]
    chosen = next((each for each in ledgers if each.unit == "user"), ledgers[0])
    stated = (run.get("release") or {}).get("guarantees") or {}
    delta = stated.get(str(chosen.unit), run["guarantee"])["delta"]
    size = (run.get("configuration") or {}).get("max_examples_per_user")
    return [Part.of(name, chosen, delta, size)]


@contextmanager
def charged(
    place: str | None,
    people: str,
    verb: str,
    planned: "Callable[[], Sequence[Part]]",
    *,
    folder: Path | None = None,
    note: str = "",
) -> Iterator[Charge]:
    """Reserve what is planned, or continue the reservation of an interrupted run in `folder`."""
    if place is None:
        yield Charge()
        return
    book = open_book(place)
    kept = _kept(folder, book)
    if kept is None:
        made = book.reserve(planned(), verb=verb, people=people, note=note)
        kept = made.id
        if made.no_user_total:
            click.echo(
                "The book has no total for a user: declare how much a user contributes at most "
                "(--max-examples-per-user), or protect users.",
                err=True,
            )
    if folder is not None:
        # Resuming after a crash must not pay again.
        folder.mkdir(parents=True, exist_ok=True)
        Run(folder).write_private(RESERVED, {"book": book.id, "reservation": kept})
    try:
        yield Charge(book, kept)
    except BaseException:
        if folder is None or _nothing_spent(folder):
            book.cancel(kept, "the verb failed before it spent anything")
            if folder is not None:
                (folder / PRIVATE / RESERVED).unlink(missing_ok=True)
        raise


def _kept(folder: Path | None, book: "Book") -> str | None:
    path = None if folder is None else folder / PRIVATE / RESERVED
    if path is None or not path.is_file():
        return None
    try:
        found = json.loads(path.read_bytes())
        if found["book"] != book.id or not book.is_open(found["reservation"]):
            return None
        return str(found["reservation"])
    except (ValueError, LookupError, TypeError):
        return None


def _nothing_spent(folder: Path) -> bool:
    """Whether no ledger in the folder has an entry."""
    from sottovoce.errors import SottovoceError
    from sottovoce.privacy.ledger import Ledger

    try:
        return not any(Ledger.read(path).entries for path in folder.glob("ledger*.jsonl"))
    except (SottovoceError, OSError):
        return False
