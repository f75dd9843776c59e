"""The counts of one de-identifier, shared safely across threads and forked processes.

A forked process has a copy of the counts that the parent never sees. So before every fork a file is
opened that parent and child share. Copies append what they are about to release, and the original
reads it for its statement. Copies make no statements.
"""

import fcntl
import json
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from sottovoce.deid.statement.unit_counts import Rows, UnitCounts
from sottovoce.errors import InvalidInput

_LIVE: "weakref.WeakSet[SharedCounts]" = weakref.WeakSet()


class SharedCounts:
    """Adds to and reads the counts of a de-identifier, across threads and forks.

    >>> shared = SharedCounts()
    >>> shared.add(Rows(types=[("PER",)], users=["ann"], keys=[1], releases=[1]))
    >>> with shared.all_counted() as counts:
    ...     counts.utterances
    1
    """

    def __init__(self) -> None:
        self._counts = UnitCounts()
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._shared: BinaryIO | None = None
        self._read = 0
        _LIVE.add(self)

    @property
    def is_copy(self) -> bool:
        """Whether this process got the object by a fork."""
        return os.getpid() != self._owner

    def add(self, rows: Rows) -> None:
        """Count utterances; call this before they are released."""
        with self._lock:
            if self.is_copy:
                self._report(rows)
            else:
                self._counts.add_all(rows)

    @contextmanager
    def all_counted(self) -> Iterator[UnitCounts]:
        """The counts of the original and all copies, locked while in use."""
        if self.is_copy:
            raise InvalidInput(
                "Expected the de-identifier of the parent process, got the copy in a forked one: "
                "ask the parent for the statement, which covers what its copies release."
            )
        with self._lock:
            self._collect()
            yield self._counts

    def _report(self, rows: Rows) -> None:
        if self._shared is None:
            raise InvalidInput(
                "Expected a file shared with the parent process, got none: this copy of a "
                "de-identifier cannot report what it releases; make one in each process."
            )
        line = json.dumps(rows.to_json()).encode() + b"\n"
        file = self._shared.fileno()
        fcntl.lockf(file, fcntl.LOCK_EX)  # by process; flock would be shared with the parent
        try:
            end = os.fstat(file).st_size
            while line:
                written = os.pwrite(file, line, end)
                line, end = line[written:], end + written
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN)

    def _collect(self) -> None:
        if self._shared is None:
            return
        file = self._shared.fileno()
        fcntl.lockf(file, fcntl.LOCK_SH)
        try:
            size = os.fstat(file).st_size
            content = b""
            while self._read + len(content) < size:
                content += os.pread(
                    file, size - self._read - len(content), self._read + len(content)
                )
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN)
        # A copy that died while writing had not released anything yet.
        whole = content[: content.rfind(b"\n") + 1]
        for line in whole.splitlines():
            self._counts.add_all(Rows.from_json(json.loads(line)))
        self._read += len(whole)

    def _before_fork(self) -> None:
        self._lock.acquire()
        if self._shared is None:
            self._shared = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the shared
            weakref.finalize(self, self._shared.close)

    def _after_fork(self) -> None:
        self._lock.release()


_HELD: list[SharedCounts] = []


def _before_fork() -> None:
    for shared in list(_LIVE):
        _HELD.append(shared)
        shared._before_fork()


def _after_fork() -> None:
    while _HELD:
        _HELD.pop()._after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
