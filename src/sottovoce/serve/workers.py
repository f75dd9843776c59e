"""Workers: where the work of requests runs, and for whom.

`Threads` are threads of this process, for tests and for applications that embed the service. They
cannot be killed: late work occupies its thread until it ends, and its result is discarded.
`processes.Processes` can be killed, and is what `sottovoce serve` uses.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from fastapi import Request

from sottovoce.serve.limits import BUSY, LATE, Deadline
from sottovoce.serve.problems import RequestError

if TYPE_CHECKING:
    from sottovoce.serve.jobs import Loaded, Resources

Answer = dict[str, Any]


class Verb(StrEnum):
    """What a job does; one per endpoint."""

    DEIDENTIFY = "deidentify"
    PARSE = "parse"
    RESCORE = "rescore"
    EPSILON = "epsilon"
    GUARD = "guard"
    RESTORE = "restore"


class Workers(Protocol):
    """Runs jobs with a time limit."""

    @property
    def loaded(self) -> "Loaded": ...

    @property
    def ready(self) -> bool:
        """Whether jobs can run now."""
        ...

    async def run(self, verb: Verb, body: str, caller: str) -> Answer:
        """The answer to a valid request; raises `RequestError` at the time limit."""
        ...

    def close(self) -> None:
        """Stop all work; the next job starts new workers."""
        ...


def caller_of(request: Request) -> str:
    """Who asks: the address of the client. Callers get equal shares of the workers."""
    return request.client.host if request.client else ""


class Threads:
    """A fixed number of threads of this process."""

    def __init__(self, resources: "Resources", threads: int, seconds: float) -> None:
        self._resources = resources
        self._count = threads
        self._seconds = seconds
        self._threads = self._new_threads()

    @property
    def loaded(self) -> "Loaded":
        return self._resources.loaded

    @property
    def ready(self) -> bool:
        return True

    async def run(self, verb: Verb, body: str, caller: str) -> Answer:
        future = self._threads.submit(
            self._resources.answer, verb, body, Deadline(self._seconds)
        )  # fmt: skip
        try:
            # Results of abandoned work are dropped with the future.
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except TimeoutError:
            started = not future.cancelled()
            raise RequestError(504 if started else 503, LATE if started else BUSY) from None

    def close(self) -> None:
        old = self._threads
        self._threads = self._new_threads()
        old.shutdown(wait=False, cancel_futures=True)

    def _new_threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._count, thread_name_prefix="sottovoce")
