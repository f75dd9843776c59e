"""A hash chain: the hash of each record covers all records before it.

A record that is changed, removed, inserted or moved breaks the chain from there on. A chain is not
a signature: anyone who can write the whole file can write a different valid chain. A second copy,
in a checkpoint or in run.json, reveals that, because the hashes no longer match.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sottovoce.errors import LedgerDamaged

Record = Mapping[str, Any]

# Reading a JSON copy hashes every record again; more records than any run writes are rejected.
_MOST_RECORDS = 2**26


@dataclass(frozen=True)
class Head:
    """The end of a chain: its number of records and the hash over all of them."""

    records: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        return {"records": self.records, "sha256": self.sha256}


START = Head(0, "0" * 64)


class Link(NamedTuple):
    """A record with its position in a chain."""

    record: Record
    body: str
    head: Head

    @property
    def line(self) -> bytes:
        number, digest = self.head.records - 1, self.head.sha256
        return f'{{"n": {number}, "sha256": "{digest}", "record": {self.body}}}\n'.encode()


class Run(NamedTuple):
    """Consecutive equal records, and the head of the chain after them."""

    record: Record
    body: str
    times: int
    head: Head


class Chain:
    """Records in order. Consecutive equal records are stored once with a count, so that memory does
    not grow with the length of the training."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    @property
    def head(self) -> Head:
        return self._runs[-1].head if self._runs else START

    @property
    def runs(self) -> Sequence[Run]:
        return self._runs

    def next(self, record: Record) -> Link:
        """The link for `record` if it were appended now."""
        body = json.dumps(record, sort_keys=True, allow_nan=False)
        # Keep what a reader would get: no tuples, no enums, no objects shared with the caller.
        return self.link(json.loads(body), body)

    def link(self, record: Record, body: str) -> Link:
        """The link for a record that is already serialised as `body`."""
        before = self.head
        digest = hashlib.sha256(f"{before.sha256} {before.records} {body}".encode())
        return Link(record, body, Head(before.records + 1, digest.hexdigest()))

    def append(self, link: Link) -> None:
        # Both branches are a single assignment, so an interrupt cannot leave a partial update.
        if self._runs and self._runs[-1].body == link.body:
            last = self._runs[-1]
            self._runs[-1] = last._replace(times=last.times + 1, head=link.head)
        else:
            self._runs.append(Run(link.record, link.body, 1, link.head))

    def lines(self) -> bytes:
        """The chain in its file format."""
        again, lines = Chain(), []
        for run in self._runs:
            for _ in range(run.times):
                link = again.link(run.record, run.body)
                again.append(link)
                lines.append(link.line)
        return b"".join(lines)

    def to_json(self) -> list[Record]:
        return [
            run.record if run.times == 1 else {**run.record, "times": run.times}
            for run in self._runs
        ]

    @classmethod
    def from_json(cls, records: Iterable[Any]) -> "Chain":
        chain = cls()
        for each in records:
            if not isinstance(each, dict):
                raise LedgerDamaged(f"Expected a ledger record, got {each!r}.")
            record = {name: value for name, value in each.items() if name != "times"}
            times = each.get("times", 1)
            if not isinstance(times, int) or isinstance(times, bool) or times < 1:
                raise LedgerDamaged(f"Expected times >= 1, got {times!r}.")
            if chain.head.records + times > _MOST_RECORDS:
                raise LedgerDamaged(
                    f"Expected at most {_MOST_RECORDS} records, got a longer ledger."
                )
            try:
                link = chain.next(record)
            except ValueError as problem:
                raise LedgerDamaged(f"Expected a ledger record, but {problem}.") from problem
            chain.append(link)
            for _ in range(times - 1):
                chain.append(chain.link(link.record, link.body))
        return chain
