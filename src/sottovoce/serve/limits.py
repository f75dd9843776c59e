"""Limits on how much, how long and how many: of a request's body, of its work, of requests.

A body is read whole before anything looks at it, and never more of it than the limit. Work runs in
a few threads with a deadline; what comes too late is thrown away, not sent. A thread cannot be
stopped from outside, so it keeps its place until it is done: then others wait, but the number of
threads never grows.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sottovoce.serve.problems import Refused, refusal

Result = TypeVar("Result")

_LATE = "The time limit was reached; nothing is returned. Send less at a time."
_CLOSE = {"Connection": "close"}
_BUSY = "The service is busy; nothing was done. Try again later."


class BodyLimit:
    """Middleware: at most so many requests at once, each with a body of at most so many bytes."""

    def __init__(self, app: ASGIApp, *, max_body: int, requests: int, seconds: float) -> None:
        self._app = app
        self._max_body = max_body
        self._requests = requests
        self._seconds = seconds
        self._now = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == "/healthz":
            await self._app(scope, receive, send)
            return
        if self._now >= self._requests:
            await refusal(503, _BUSY)(scope, receive, send)
            return
        self._now += 1
        try:
            await self._limited(scope, receive, send)
        finally:
            self._now -= 1

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await asyncio.wait_for(self._read(scope, receive), self._seconds)
        except Refused as problem:
            # Whatever else the caller still sends is not read: the connection is closed.
            answer = refusal(problem.status, problem.sentence, headers=_CLOSE)
            await answer(scope, receive, send)
            return
        except TimeoutError:
            sentence = f"The body did not arrive within {self._seconds:g} seconds."
            await refusal(408, sentence, headers=_CLOSE)(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _replay(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body; None if the caller went away."""
        too_large = Refused(413, f"A body may have {self._max_body:,} bytes at most.")
        announced = Headers(scope=scope).get("content-length", "0")
        if not announced.isdecimal() or int(announced[:20]) > self._max_body:
            raise too_large
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self._max_body:
                raise too_large
            if not message.get("more_body", False):
                return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give the body again, then whatever else comes."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


class Deadline:
    """When work has to be done; long work looks at it now and then.

    >>> Deadline(60).check()
    >>> Deadline(0).check()
    Traceback (most recent call last):
    sottovoce.serve.problems.Refused: The time limit was reached; nothing is returned. Send less
    at a time.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Stop here if it is too late."""
        if time.monotonic() >= self._end:
            raise Refused(504, _LATE)


class Workers:
    """A few threads for work that takes the processor, with a time limit."""

    def __init__(self, threads: int, seconds: float) -> None:
        self._count = threads
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sottovoce")

    async def run(self, work: Callable[[Deadline], Result]) -> Result:
        """The result of the work, or a refusal when the time is over."""
        future = self._threads.submit(work, Deadline(self._seconds))
        try:
            # The result of abandoned work goes nowhere: nobody holds its future any more.
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except TimeoutError:
            begun = not future.cancelled()
            raise Refused(504 if begun else 503, _LATE if begun else _BUSY) from None

    def close(self) -> None:
        """Let the threads go. An application may be started again, so there are new ones then."""
        old = self._threads
        self._threads = ThreadPoolExecutor(self._count, thread_name_prefix="sottovoce")
        old.shutdown(wait=False, cancel_futures=True)
