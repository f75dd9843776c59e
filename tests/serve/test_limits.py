"""Limits on body size, processing time and concurrent requests."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send
from tests.serve.conftest import ClientOf, Prediction

from sottovoce.serve.app import create_app
from sottovoce.serve.jobs import Resources
from sottovoce.serve.limits import BodyLimit, Deadline
from sottovoce.serve.problems import RequestError
from sottovoce.serve.settings import Settings
from sottovoce.serve.workers import Threads, Verb

Handler = Callable[[Scope, Receive, Send], Awaitable[None]]


def scope(path: str = "/deidentify", **headers: str) -> dict[str, Any]:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": "POST", "path": path, "headers": pairs}


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    await Response(message["body"])(scope, receive, send)


async def answer_of(app: Handler, receive: Receive, **asked: Any) -> tuple[int, bytes]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope(**asked), receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def limited(app: Handler = echo, **limits: Any) -> BodyLimit:
    return BodyLimit(app, **{"max_body": 100, "requests": 8, "seconds": 60.0, **limits})


def chunks(*parts: bytes) -> Receive:
    left = list(parts)

    async def receive() -> Message:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return receive


def test_a_body_within_the_limit_arrives_whole() -> None:
    answer = asyncio.run(answer_of(limited(), chunks(b"x" * 60, b"", b"y" * 40)))
    assert answer == (200, b"x" * 60 + b"y" * 40)


def test_a_body_without_end_is_not_read_to_its_end() -> None:
    asked = 0

    async def receive() -> Message:
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": b"x" * 10, "more_body": True}

    status, body = asyncio.run(answer_of(limited(), receive))
    assert status == 413
    assert asked == 11
    assert json.loads(body)["error"] == "Expected a body of at most 100 bytes, got more."


@pytest.mark.parametrize("length", ["101", "9" * 5000, "-1", "ten"])
def test_an_announced_length_is_believed_when_it_is_too_much(length: str) -> None:
    async def receive() -> Message:
        raise AssertionError("read although it was too long")

    status, _ = asyncio.run(answer_of(limited(), receive, content_length=length))
    assert status == 413


def test_a_body_that_does_not_arrive() -> None:
    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    assert asyncio.run(answer_of(limited(seconds=0.01), receive))[0] == 408


def test_requests_beyond_the_limit_are_turned_away_and_room_is_made_again() -> None:
    async def scenario() -> tuple[list[int], int]:
        done = asyncio.Event()

        async def wait(scope: Scope, receive: Receive, send: Send) -> None:
            await done.wait()
            await Response(b"")(scope, receive, send)

        app = limited(wait, requests=2)
        first = [asyncio.create_task(answer_of(app, chunks(b""))) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        refused = await answer_of(app, chunks(b""))
        healthy = asyncio.create_task(answer_of(app, chunks(b""), path="/healthz"))
        done.set()
        statuses = [status for status, _ in [*await asyncio.gather(*first), await healthy]]
        later = await answer_of(app, chunks(b""))
        return [refused[0], *statuses], later[0]

    assert asyncio.run(scenario()) == ([503, 200, 200, 200], 200)


def test_late_work_is_refused_and_waiting_work_is_never_begun() -> None:
    release, begun = threading.Event(), threading.Event()

    class Slow:
        """Resources whose first job waits."""

        def answer(self, verb: Verb, body: str, deadline: Deadline) -> dict[str, Any]:
            if body == "first":
                release.wait()
            elif body == "second":
                begun.set()
            return {"body": body}

    async def scenario() -> list[int]:
        workers = Threads(cast(Resources, Slow()), 1, 0.1)
        jobs = (workers.run(Verb.PARSE, body, "") for body in ("first", "second"))
        results = await asyncio.gather(*jobs, return_exceptions=True)
        release.set()
        # When the thread is free again, work runs as before.
        assert await workers.run(Verb.PARSE, "free", "") == {"body": "free"}
        workers.close()
        return [each.status for each in results if isinstance(each, RequestError)]

    assert asyncio.run(scenario()) == [504, 503]
    assert not begun.is_set()


def test_a_late_answer_holds_no_text(client_of: ClientOf) -> None:
    release = threading.Event()

    def slow(tokens: Sequence[Sequence[str]]) -> list[Prediction]:
        release.wait()
        return [Prediction("call", 1.0, ("O",) * len(words)) for words in tokens]

    try:
        answer = client_of(predict=slow, timeout=0.1).post("/parse", json={"text": "call Maria"})
    finally:
        release.set()
    assert answer.status_code == 504
    assert "Maria" not in answer.text


def test_work_that_looks_at_its_deadline_stops(client_of: ClientOf) -> None:
    answer = client_of(timeout=1e-9).post("/deidentify", json={"text": "call Maria"})
    assert answer.status_code in (503, 504)
    assert "Maria" not in answer.text


def test_an_application_can_be_started_again() -> None:
    app = create_app(Settings(detector="patterns"), in_process=True)
    for _ in range(2):
        with TestClient(app) as client:
            assert client.post("/deidentify", json={"text": "x"}).status_code == 200


def test_the_limit_of_the_settings_is_used(client_of: ClientOf) -> None:
    small = client_of(max_body=50)
    assert small.post("/deidentify", json={"text": "x"}).status_code == 200
    answer = small.post("/deidentify", json={"text": "x" * 50})
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
