"""The book: one ledger over everything ever released about the same people.

It is append-only, hash-chained and signed. A verb reserves what it will spend before it runs, and
settles what it has spent afterwards; a process that is killed in between has spent what it
reserved. `records` makes and checks the chain, `stores` keeps it in SQLite or PostgreSQL, `anchors`
notices a book that was rolled back, `book` reserves, settles and adds up.
"""

from sottovoce.book.book import Book, Reservation

__all__ = ["Book", "Reservation"]
