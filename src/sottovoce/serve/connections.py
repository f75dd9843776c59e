"""Connections: a limit on their number, and on the time to send the headers of a request.

uvicorn closes idle connections after a response, but waits for ever for the first request, or for
the rest of its headers. Its h11 protocol bounds the size of headers while they arrive.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 1000
MAX_PER_ADDRESS = 250
HEADER_SECONDS = 10.0


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with limits on connections."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._headers_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else None
        alike = sum(
            1 for each in self.connections if each.client and each.client[0] == address
        )  # fmt: skip
        if len(self.connections) > MAX_CONNECTIONS or alike > MAX_PER_ADDRESS:
            transport.abort()
            return
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # A request has begun when h11 has read its headers; until then the clock runs.
        if self.conn.their_state is not h11.IDLE:
            self._cancel()
        elif self._headers_due is None and self.conn.trailing_data[0]:
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def _expect_headers(self) -> None:
        self._headers_due = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _cancel(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None
