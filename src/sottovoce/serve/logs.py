"""One line of JSON per request, without any content of the request.

A line has the time, the address of the client, the path if it is one of ours, the status, the
duration and the number of bytes in and out. For exceptions it has type and line of code, because
messages may quote the text. For log records of other libraries it has the message template without
arguments.
"""

import json
import logging
import sys
import time
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sottovoce.serve.metrics import Metrics
from sottovoce.serve.problems import WorkFailed, error_response, place_of

LOGGER = logging.getLogger("sottovoce.serve")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestLog:
    """Outermost middleware: logs every request and catches every exception."""

    def __init__(self, app: ASGIApp, *, paths: Collection[str], metrics: Metrics) -> None:
        self._app = app
        self._paths = frozenset(paths)
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        seen: dict[str, int] = {"status": 0, "bytes_in": 0, "bytes_out": 0}
        failure: dict[str, Any] = {}

        async def counted_receive() -> Message:
            message = await receive()
            seen["bytes_in"] += len(message.get("body", b""))
            return message

        async def counted_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen["status"] = message["status"]
            seen["bytes_out"] += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, counted_receive, counted_send)
        except Exception as problem:  # noqa: BLE001
            # uvicorn would log the exception with its message, which may quote the text.
            name = problem.failure if isinstance(problem, WorkFailed) else type(problem).__name__
            failure = {"failure": name, "where": place_of(problem)}
            if not seen["status"]:
                answer = error_response(500, "The service failed; nothing is returned.")
                await answer(scope, receive, counted_send)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        path = scope["path"] if scope["path"] in self._paths else "other"
        seconds = time.monotonic() - started
        self._metrics.request(method, path, seen["status"], seconds)
        facts = {
            "client": scope["client"][0] if scope.get("client") else None,
            "method": method,
            "path": path,
            **seen,
            "seconds": round(seconds, 4),
            **failure,
        }
        level = logging.ERROR if failure else logging.INFO
        LOGGER.log(level, "request", extra={"facts": facts})


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: our fields, or the bare template of other libraries.

    >>> record = logging.LogRecord("uvicorn", 20, "", 0, "bad request: %s", ("call mum",), None)
    >>> json.loads(JsonLines().format(record))["event"]
    'bad request: %s'
    """

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": when, "level": record.levelname.lower()}
        line["event"] = str(record.msg).partition("\n")[0]
        if record.name == LOGGER.name:
            line |= getattr(record, "facts", {})
        if record.exc_info and record.exc_info[1] is not None:
            line |= {
                "failure": type(record.exc_info[1]).__name__,
                "where": place_of(record.exc_info[1]),
            }
        return json.dumps(line, ensure_ascii=False)


def log_to(stream: TextIO | None = None) -> None:
    """Log this service and its server to a stream (default: standard error)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for name in (LOGGER.name, "uvicorn", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name != "uvicorn.error" else []
        logger.propagate = name == "uvicorn.error"
        logger.setLevel(logging.INFO)
