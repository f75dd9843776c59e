"""Where a book is kept: a SQLite file, or a PostgreSQL server by its URL.

Both keep the same contract. A transaction sees all records, lets nobody else write until it ends,
and its record is on disk when it has ended. Triggers refuse to change or delete a record; whoever
removes the triggers breaks the chain.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sottovoce.book.records import Record
from sottovoce.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    import psycopg

URLS = ("postgresql://", "postgres://")
_WAIT = 60.0
"""Seconds to wait for another writer."""
_COLUMNS = "n, body, previous, sha256, signature"

Append = Callable[[Record], None]


class Store(Protocol):
    """Keeps records in order."""

    def create(self, first: Record) -> None:
        """Start a new book; refuse where there is one."""

    def records(self) -> list[Record]:
        """All records."""

    def writing(self) -> AbstractContextManager[tuple[list[Record], Append]]:
        """A transaction that nobody else shares: all records, and a function to add one."""


def store_at(place: str) -> Store:
    """The store of a path or a URL."""
    return PostgresStore(place) if place.startswith(URLS) else SqliteStore(Path(place))


class SqliteStore:
    """A file. The rollback journal, not the write-ahead log, works on shared file systems."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, first: Record) -> None:
        if self.path.exists():
            raise InvalidInput(f"Expected a new file for the book, but {self.path} exists.")
        if not self.path.parent.is_dir():
            raise InvalidInput(f"Expected an existing folder for {self.path}.")
        with self._connected() as connection:
            try:
                connection.execute("BEGIN EXCLUSIVE")
                connection.execute(
                    "CREATE TABLE records (n INTEGER PRIMARY KEY, body TEXT NOT NULL, previous "
                    "TEXT NOT NULL UNIQUE, sha256 TEXT NOT NULL, signature TEXT NOT NULL)"
                )
            except sqlite3.OperationalError as problem:
                raise InvalidInput(
                    f"Expected a new book at {self.path}, but {problem}."
                ) from problem
            for change in ("UPDATE", "DELETE"):
                connection.execute(
                    f"CREATE TRIGGER no_{change.lower()} BEFORE {change} ON records BEGIN SELECT "
                    "RAISE(ABORT, 'a book is append-only'); END"
                )
            _insert(connection, first)
            connection.execute("COMMIT")

    def records(self) -> list[Record]:
        with self._connected() as connection:
            return _read(connection)

    @contextmanager
    def writing(self) -> Iterator[tuple[list[Record], Append]]:
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield _read(connection), lambda record: _insert(connection, record)
            connection.execute("COMMIT")

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = sqlite3.connect(self.path, timeout=_WAIT, isolation_level=None)
        except sqlite3.Error as problem:
            raise InvalidInput(f"Expected a book at {self.path}, but {problem}.") from problem
        try:
            connection.execute("PRAGMA synchronous = EXTRA")
            yield connection
        except sqlite3.Error as problem:
            raise InvalidInput(f"Expected a book at {self.path}, but {problem}.") from problem
        finally:
            connection.close()  # rolls back what was not committed


class PostgresStore:
    """A server, for several machines. The table is `sottovoce_book` of the database."""

    def __init__(self, url: str) -> None:
        self.url = url

    def create(self, first: Record) -> None:
        with self._connected() as connection:
            exists = connection.execute("SELECT to_regclass('sottovoce_book')").fetchone()
            if exists is not None and exists[0] is not None:
                raise InvalidInput("Expected a database without a book, but it has one.")
            connection.execute(
                "CREATE TABLE sottovoce_book (n BIGINT PRIMARY KEY, body TEXT NOT NULL, previous "
                "TEXT NOT NULL UNIQUE, sha256 TEXT NOT NULL, signature TEXT NOT NULL)"
            )
            connection.execute(
                "CREATE FUNCTION sottovoce_append_only() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'a book is append-only'; END $$"
            )
            connection.execute(
                "CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON sottovoce_book "
                "FOR EACH STATEMENT EXECUTE FUNCTION sottovoce_append_only()"
            )
            self._insert(connection, first)

    def records(self) -> list[Record]:
        with self._connected() as connection:
            return self._read(connection)

    @contextmanager
    def writing(self) -> Iterator[tuple[list[Record], Append]]:
        with self._connected() as connection:
            connection.execute("SET LOCAL synchronous_commit = on")
            connection.execute("LOCK TABLE sottovoce_book IN EXCLUSIVE MODE")
            yield self._read(connection), lambda record: self._insert(connection, record)

    @contextmanager
    def _connected(self) -> "Iterator[psycopg.Connection[tuple[Any, ...]]]":
        """A connection with one transaction, committed at the end."""
        try:
            import psycopg
        except ModuleNotFoundError as problem:
            raise MissingExtra(
                "Expected the driver of PostgreSQL: pip install 'sottovoce[postgres]'."
            ) from problem
        try:
            with psycopg.connect(self.url, connect_timeout=int(_WAIT)) as connection:
                yield connection
        except psycopg.Error as problem:
            reason = " ".join(str(problem).split())
            raise InvalidInput(f"Expected a book in PostgreSQL, but {reason}.") from problem

    def _read(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> list[Record]:
        rows = connection.execute(
            "SELECT n, body, previous, sha256, signature FROM sottovoce_book ORDER BY n"
        )
        return [Record(*row) for row in rows]

    def _insert(self, connection: "psycopg.Connection[tuple[Any, ...]]", record: Record) -> None:
        connection.execute(
            "INSERT INTO sottovoce_book VALUES (%s, %s, %s, %s, %s)",
            (record.n, record.body, record.previous, record.sha256, record.signature),
        )


def _read(connection: sqlite3.Connection) -> list[Record]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM records ORDER BY n")
    return [Record(*row) for row in rows]


def _insert(connection: sqlite3.Connection, record: Record) -> None:
    connection.execute(
        f"INSERT INTO records ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)",
        (record.n, record.body, record.previous, record.sha256, record.signature),
    )
