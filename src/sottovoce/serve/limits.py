"""Limits on request size, processing time and the number of concurrent requests.

A body is read completely, up to the limit, before it is parsed. Work runs in a fixed number of
threads with a deadline; late results are discarded. Threads cannot be killed, so late work occupies
its thread until it ends: other requests wait, but the number of threads never grows.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sottovoce.serve.problems import RequestError, error_response

Result = TypeVar("Result")

_LATE = "The time limit was reached; nothing is returned. Send smaller requests."
_CLOSE = {"Connection": "close"}
_BUSY = "The service is busy; the request was not processed. Try again later."


class BodyLimit:
    """Middleware: limit the number of concurrent requests and the size of their bodies."""

    def __init__(self, app: ASGIApp, *, max_body: int, requests: int, seconds: float) -> None:
        self._app = app
        self._max_body = max_body
        self._requests = requests
        self._seconds = seconds
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == "/healthz":
            await self._app(scope, receive, send)
            return
        if self._active >= self._requests:
            await error_response(503, _BUSY)(scope, receive, send)
            return
        self._active += 1
        try:
            await self._limited(scope, receive, send)
        finally:
            self._active -= 1

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await asyncio.wait_for(self._read(scope, receive), self._seconds)
        except RequestError as problem:
            # The rest of the body is not read: close the connection.
            answer = error_response(problem.status, problem.message, headers=_CLOSE)
            await answer(scope, receive, send)
            return
        except TimeoutError:
            message = f"The body did not arrive within {self._seconds:g} seconds."
            await error_response(408, message, headers=_CLOSE)(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _replay(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """The complete body; None if the client disconnected."""
        too_large = RequestError(
            413, f"Expected a body of at most {self._max_body:,} bytes, got more."
        )
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
    """A `receive` that returns the body once, then the original messages."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


class Deadline:
    """A deadline that long-running work checks from time to time.

    >>> Deadline(60).check()
    >>> Deadline(0).check()
    Traceback (most recent call last):
    sottovoce.serve.problems.RequestError: The time limit was reached; nothing is returned. Send
    smaller requests.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Raise if the deadline has passed."""
        if time.monotonic() >= self._end:
            raise RequestError(504, _LATE)


class Workers:
    """A fixed number of threads for CPU-bound work, with a time limit."""

    def __init__(self, threads: int, seconds: float) -> None:
        self._count = threads
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sottovoce")

    async def run(self, work: Callable[[Deadline], Result]) -> Result:
        """The result of the work; raises if the time limit is reached."""
        future = self._threads.submit(work, Deadline(self._seconds))
        try:
            # Results of abandoned work are dropped with the future.
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except TimeoutError:
            started = not future.cancelled()
            raise RequestError(504 if started else 503, _LATE if started else _BUSY) from None

    def close(self) -> None:
        """Stop the threads, and create new ones: an application may be started again."""
        old = self._threads
        self._threads = ThreadPoolExecutor(self._count, thread_name_prefix="sottovoce")
        old.shutdown(wait=False, cancel_futures=True)
