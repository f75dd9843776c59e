"""Connections of a real server: half-open ones end, headers are bounded, numbers are limited."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from sottovoce.serve import connections
from sottovoce.serve.connections import LimitedProtocol


@contextmanager
def served(protocol: type[asyncio.Protocol] = LimitedProtocol) -> Iterator[int]:
    """The port of a server that answers every request."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        PlainTextResponse("hello"), http=protocol, ws="none", lifespan="off", log_config=None,
        h11_max_incomplete_event_size=1 << 16,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def answered(connection: socket.socket) -> bool:
    """Whether the whole answer arrives; it may come in several parts."""
    answer = b""
    while not answer.endswith(b"hello"):
        part = connection.recv(1 << 16)
        if not part:
            return False
        answer += part
    return True


def ended(connection: socket.socket) -> bool:
    """Whether the server closes the connection, without an answer."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: ",
        # After a complete request, half of the next one.
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_a_request_that_never_arrives_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    with served() as port, connect(port) as connection:
        connection.sendall(begun)
        if begun.endswith(b"\r\n\r\n"):
            assert answered(connection)
            connection.sendall(b"GET / HT")
        assert ended(connection)


def test_a_request_in_time_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as port, connect(port) as connection:
        for _ in range(3):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert answered(connection)


def test_connections_of_one_address_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_PER_ADDRESS", 3)
    with served() as port:
        kept = [connect(port) for _ in range(3)]
        for each in kept:
            each.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert answered(each)
        with connect(port) as refused:
            assert ended(refused)
        for each in kept:
            each.close()


def test_headers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as port, connect(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 17))
        answer = connection.recv(1 << 16)
        assert b" 400 " in answer.splitlines()[0]
