"""The contract of a book, the same in every store: what it adds up, refuses and notices."""

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sottovoce.book import Book
from sottovoce.book.records import Record, record, verified
from sottovoce.book.stores import URLS, store_at
from sottovoce.errors import BudgetExceeded, InvalidInput, LedgerDamaged
from sottovoce.io.signatures import make_key, read_private_key
from sottovoce.privacy.accounting import Entry
from sottovoce.privacy.composition import BASIC, Part
from sottovoce.privacy.facts import BoundedRelease, NoisySum, Sampling
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.policy import Policy

WHY = {"why": "for a test", "source": "this test"}


def policy(most: float = 1.0) -> Policy:
    limits = {unit: {"release": most, "most": most, **WHY} for unit in ("user", "example")}
    return Policy.from_json({"name": "test", "epsilon": limits, "delta": {"most": 1e-4, **WHY}})


def histogram(epsilon: float = 0.25, unit: Unit = Unit.USER, size: int | None = None) -> Part:
    fact = BoundedRelease(unit=unit, mechanism="histogram", epsilon=epsilon)
    return Part(name="histogram", unit=unit, relation=Relation.ADD_OR_REMOVE, delta=0.0,
                entries=(Entry(fact),), group_size=size)  # fmt: skip


def gaussian(noise: float, unit: Unit = Unit.USER, size: int | None = None) -> Part:
    fact = NoisySum(unit=unit, clip_norm=1, noise_stds=(noise,), sampling=Sampling.EVERYONE)
    return Part(name="sum", unit=unit, relation=Relation.ADD_OR_REMOVE, delta=1e-6,
                entries=(Entry(fact),), group_size=size)  # fmt: skip


def spend(book: Book, part: Part, **about: Any) -> str:
    made = book.reserve([part], verb="train", **about)
    book.settle(made.id, [part], artifacts={"model": "0" * 64})
    return made.id


def test_releases_add_up_until_the_policy_refuses(place: str) -> None:
    book = Book.create(place, policy(1.0))
    for _ in range(4):
        spend(book, histogram())
    with pytest.raises(BudgetExceeded, match="nothing was released"):
        book.reserve([histogram()], verb="deid")
    again = Book.open(place)
    assert again.totals()["everyone"].person.epsilon == pytest.approx(1.0)
    assert again.totals()["everyone"].left(again.policy) == 0.0
    assert len(again.records) == 9
    spend(again, histogram(), people="others")  # other people have their own total
    assert {*again.totals()} == {"everyone", "others"}


def test_the_twin_with_a_larger_limit_is_not_refused(place: str) -> None:
    book = Book.create(place, policy(2.0))
    for _ in range(5):
        spend(book, histogram())
    assert book.totals()["everyone"].person.epsilon == pytest.approx(1.25)


def test_an_open_reservation_counts_and_a_cancelled_one_does_not(place: str) -> None:
    book = Book.create(place, policy())
    made = book.reserve([histogram(0.9)], verb="train")
    with pytest.raises(BudgetExceeded):
        book.reserve([histogram(0.9)], verb="train")
    book.cancel(made.id, "nothing was spent")
    other = book.reserve([histogram(0.9)], verb="train")
    book.settle(other.id, [histogram(0.1)])  # it has spent less than it reserved
    assert book.totals()["everyone"].person.epsilon == pytest.approx(0.1)
    for late in (made.id, other.id, "unknown"):
        with pytest.raises(InvalidInput, match="open reservation"):
            book.cancel(late, "too late")


def test_smaller_units_are_brought_to_the_user(place: str) -> None:
    book = Book.create(place, policy(8.0))
    spend(book, histogram(0.2, Unit.EXAMPLE, size=5))
    spend(book, gaussian(10.0))
    total = book.totals()["everyone"]
    assert total.person.holds
    assert 1.0 < total.person.epsilon < 2.0
    assert total.by_unit[Unit.EXAMPLE].epsilon == pytest.approx(0.2)
    assert len(total.by_year) == 1
    made = book.reserve([histogram(0.2, Unit.EXAMPLE)], verb="deid")
    assert made.no_user_total
    assert "user_total" in book.records[-1].content
    total = book.totals()["everyone"]
    assert not total.person.holds
    assert "nobody declared" in total.person.reasons[0]
    assert total.left(book.policy) is None


def test_the_way_of_adding_up_is_named_and_better_where_it_can_be(place: str) -> None:
    book = Book.create(place, policy(8.0))
    for _ in range(4):
        spend(book, gaussian(8.0))
    joint = book.totals()["everyone"].person
    assert joint.way == "analytic Gaussian"
    assert joint.epsilon < 4 * gaussian(8.0).guarantee().epsilon
    assert BASIC.startswith("basic")


def test_what_has_no_guarantee_is_refused(place: str) -> None:
    from sottovoce.cli.shared.book import unprotected

    book = Book.create(place, policy())
    with pytest.raises(BudgetExceeded, match="no guarantee"):
        book.reserve([unprotected("plain", "user", "plain SGD adds no noise")], verb="train")
    assert len(book.records) == 1


def in_a_process(work: Callable[[], int]) -> int:
    """Fork a process that does the work and ends with its result; return its id."""
    child = os.fork()
    if not child:
        try:
            os._exit(work())
        except BaseException:  # noqa: BLE001 - a fork must not go on with the tests
            os._exit(99)
    return child


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_eight_writers_at_once_spend_the_budget_and_no_more(place: str) -> None:
    Book.create(place, policy(1.0))

    def work() -> int:
        book, done = Book.open(place), 0
        for _ in range(3):
            try:
                made = book.reserve([histogram(0.125)], verb="deid")
            except BudgetExceeded:
                continue
            book.settle(made.id, [histogram(0.125)])
            done += 1
        return done

    writers = [in_a_process(work) for _ in range(8)]
    assert sum(ended(writer) for writer in writers) == 8
    book = Book.open(place)
    assert book.totals()["everyone"].person.epsilon == pytest.approx(1.0)
    assert len(verified(book.records)) == 1 + 2 * 8


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("moment", "counted"), [("after", True), ("within", False)])
def test_killed_is_spent_once_it_was_reserved(
    place: str, moment: str, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    Book.create(place, policy(1.0))

    def work() -> int:
        book = Book.open(place)
        if moment == "within":  # the record is inserted, and the transaction is open
            store: Any = book._store
            inner = store.writing

            @contextmanager
            def dying() -> Iterator[Any]:
                with inner() as (records, append):

                    def append_and_die(new: Record) -> None:
                        append(new)
                        die()

                    yield records, append_and_die

            store.writing = dying
        book.reserve([histogram(0.75)], verb="train")
        die()
        return 0

    assert ended(in_a_process(work)) == -signal.SIGKILL
    book = Book.open(place)
    assert [entry.settled for entry in book.entries()] == ([False] if counted else [])
    if counted:
        with pytest.raises(BudgetExceeded):
            book.reserve([histogram(0.75)], verb="train")
    else:
        spend(book, histogram(0.75))


def tamper(place: str, statement: str) -> None:
    """What somebody does who has the store, but not the key."""
    if place.startswith(URLS):
        import psycopg

        with psycopg.connect(place) as connection:
            connection.execute("ALTER TABLE sottovoce_book DISABLE TRIGGER append_only")
            connection.execute(statement.format(table="sottovoce_book"))
    else:
        file = sqlite3.connect(place)
        for trigger in ("no_update", "no_delete"):
            file.execute(f"DROP TRIGGER {trigger}")
        file.execute(statement.format(table="records"))
        file.commit()
        file.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {table} SET body = replace(body, '0.25', '0.01') WHERE n = 2",
        "DELETE FROM {table} WHERE n = 2",
        "UPDATE {table} SET signature = 'AAAA' WHERE n = 3",
        "UPDATE {table} SET sha256 = 'x' WHERE n = 5",
        "DELETE FROM {table}",
    ],
)
def test_an_altered_book_is_refused(place: str, statement: str) -> None:
    book = Book.create(place, policy())
    spend(book, histogram())
    spend(book, histogram())
    tamper(place, statement)
    with pytest.raises(LedgerDamaged):
        Book.open(place)


def test_a_rolled_back_book_is_noticed(place: str, anchors: Path) -> None:
    book = Book.create(place, policy())
    spend(book, histogram())
    stored = book.anchor
    spend(book, histogram())
    tamper(place, "DELETE FROM {table} WHERE n > 2")
    with pytest.raises(LedgerDamaged, match="rolled back"):
        Book.open(place)
    # The twin: without the counter in a second place, the old copy is a valid book.
    for kept in anchors.glob("*.json"):
        kept.unlink()
    old = Book.open(place)
    with pytest.raises(LedgerDamaged, match="rolled back"):
        old.check_anchor(stored)


def test_another_history_under_the_same_name_is_noticed(place: str) -> None:
    book = Book.create(place, policy())
    spend(book, histogram())
    anchor = book.anchor
    with pytest.raises(LedgerDamaged, match="another history"):
        book.check_anchor(f"{anchor.partition(':')[0]}:{'0' * 64}")
    with pytest.raises(InvalidInput, match="anchor"):
        book.check_anchor("twelve")


def test_the_store_itself_refuses_changes(place: str) -> None:
    Book.create(place, policy())
    with pytest.raises(Exception, match="append-only"):  # noqa: PT012
        if place.startswith(URLS):
            import psycopg

            with psycopg.connect(place) as connection:
                connection.execute("DELETE FROM sottovoce_book")
        else:
            sqlite3.connect(place).execute("DELETE FROM records")


def test_only_who_has_the_key_writes(place: str, tmp_path: Path) -> None:
    Book.create(place, policy())
    make_key(tmp_path / "other.key")
    with pytest.raises(InvalidInput, match="another key"):
        Book.open(place, tmp_path / "other.key").reserve([histogram()], verb="train")
    with pytest.raises(InvalidInput, match="found none"):
        Book.open(place, tmp_path / "nowhere.key").reserve([histogram()], verb="train")
    # A record that was signed with another key breaks the chain.
    other = read_private_key(tmp_path / "other.key")
    with store_at(place).writing() as (found, append):
        append(record(other, found[-1], {"cancel": "all", "at": "now"}))
    with pytest.raises(LedgerDamaged, match="signed with the key"):
        Book.open(place)


def test_a_book_is_started_once(place: str) -> None:
    Book.create(place, policy())
    with pytest.raises(InvalidInput, match=r"book|exists"):
        Book.create(place, policy(8.0))


def test_records_that_are_moved_or_replaced_do_not_verify(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    private = read_private_key(tmp_path / "key")
    chain: list[Record] = []
    book = Book.create(str(tmp_path / "b"), policy())
    chain = [book.records[0]]
    private = read_private_key(os.environ["SOTTOVOCE_BOOK_KEY"])
    for number in range(3):
        chain.append(record(private, chain[-1], {"cancel": str(number)}))
    assert verified(chain) == chain
    changes: list[Callable[[list[Record]], list[Record]]] = [
        lambda records: [records[0], *records[2:]],
        lambda records: [records[0], records[2], records[1], records[3]],
        lambda records: [*records[:2], replace(records[2], body="{}"), records[3]],
        lambda records: [],
    ]
    for change in changes:
        with pytest.raises(LedgerDamaged):
            verified(change(chain))
