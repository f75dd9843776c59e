"""Limits on request size, the number of concurrent requests, and processing time.

A body is read completely, up to the limit, before it is parsed.
"""

import asyncio
import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sottovoce.serve.auth import OPEN
from sottovoce.serve.problems import RequestError, error_response

LATE = "The time limit was reached; nothing is returned. Send smaller requests."
_CLOSE = {"Connection": "close"}
BUSY = "The service is busy; the request was not processed. Try again later."


class BodyLimit:
    """Middleware: limit the number of concurrent requests and the size of their bodies."""

    def __init__(self, app: ASGIApp, *, max_body: int, requests: int, seconds: float) -> None:
        self._app = app
        self._max_body = max_body
        self._requests = requests
        self._seconds = seconds
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        if self._active >= self._requests:
            await error_response(503, BUSY)(scope, receive, send)
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


class JsonOnly:
    """Middleware: bodies must be declared as JSON, so that no HTML form can send one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                message = "Expected a body of the type application/json."
                await error_response(415, message, headers=_CLOSE)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class HeadAsGet:
    """Middleware: answer HEAD as GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"}, receive, without_body)


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
            raise RequestError(504, LATE)
