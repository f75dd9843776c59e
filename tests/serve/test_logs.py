"""Neither logs nor error messages contain anything from a request."""

import io
import json
import logging
import sys
from collections.abc import Sequence

import pytest
from starlette.testclient import TestClient
from tests.serve.conftest import ClientOf, Prediction

from sottovoce.serve.logs import JsonLines, log_to

SECRET = "grandmother"


def lines(logged: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in logged.getvalue().splitlines()]


def test_a_line_has_the_facts_of_a_request(client: TestClient, logged: io.StringIO) -> None:
    answer = client.post("/deidentify", json={"text": SECRET})
    [line] = lines(logged)
    assert {key: line[key] for key in ("method", "path", "status")} == {
        "method": "POST",
        "path": "/deidentify",
        "status": 200,
    }
    assert line["bytes_out"] == len(answer.content)
    assert line["bytes_in"] == len(answer.request.content)
    assert set(line) == {
        "time", "level", "event", "client", "method", "path", "status", "bytes_in", "bytes_out",
        "seconds",
    }  # fmt: skip


def test_nothing_of_any_request_is_logged_or_quoted(
    client: TestClient, logged: io.StringIO
) -> None:
    as_json = {"Content-Type": "application/json"}
    answers = [
        client.get(f"/{SECRET}"),
        client.get(f"/about?{SECRET}={SECRET}"),
        client.get(f"/static/{SECRET}"),
        client.request(SECRET.upper(), "/about"),
        client.post("/deidentify", json={SECRET: SECRET}),
        client.post("/deidentify", json={"text": [SECRET]}),
        client.post("/deidentify", json={"texts": {SECRET: SECRET}}),
        client.post("/deidentify", json={"text": "x", "strategy": SECRET}),
        client.post("/deidentify", json={"text": "x", "detector": SECRET}),
        client.post("/deidentify", json={"text": SECRET, "p": SECRET}),
        client.post("/deidentify", json=SECRET),
        client.post("/deidentify", content=f'{{"text": "{SECRET}'.encode(), headers=as_json),
        client.post("/deidentify", content=f"{SECRET}".encode(), headers=as_json),
        client.post("/deidentify", content=b'"\xff' + SECRET.encode(), headers=as_json),
        client.post("/deidentify", content=SECRET.encode(), headers={"Content-Type": SECRET}),
        client.post("/deidentify", content=f'{{"text": "{SECRET}", "p": {"9" * 9999}}}'.encode(),
                    headers=as_json),
        client.post("/deidentify", content=b"[" * 100_000, headers=as_json),
        client.post("/epsilon", json={"recipe": SECRET}),
        client.post("/epsilon", json={"recipe": "deid", "strategy": SECRET, SECRET: 1}),
        client.post("/parse", json={"texts": [SECRET, ""]}),
        client.post("/rescore", json={"lists": [{"nbest": [{"text": SECRET, "am": SECRET}]}]}),
        client.post(f"/deidentify/{SECRET}", json={}),
    ]  # fmt: skip
    for answer in answers:
        assert SECRET not in answer.text.lower(), answer.text
        assert answer.headers["cache-control"] == "no-store"
    assert len(lines(logged)) == len(answers)
    assert SECRET not in logged.getvalue().lower()
    for answer in answers[4:]:
        assert 400 <= answer.status_code < 500 or answer.status_code == 503
        assert answer.json()["error"].endswith(".")


def test_a_failure_is_logged_by_its_place_alone(client_of: ClientOf, logged: io.StringIO) -> None:
    def broken(tokens: Sequence[Sequence[str]]) -> list[Prediction]:
        raise RuntimeError(f"cannot read {tokens}")

    answer = client_of(predict=broken).post("/parse", json={"text": SECRET})
    assert answer.status_code == 500
    assert answer.json()["error"] == "The service failed; nothing is returned."
    assert answer.headers["cache-control"] == "no-store"
    [line] = lines(logged)
    assert line["level"] == "error"
    assert line["failure"] == "RuntimeError"
    assert str(line["where"]).startswith("test_logs.py:")
    assert SECRET not in logged.getvalue()


def test_records_of_others_lose_their_arguments_and_messages() -> None:
    try:
        raise ValueError(SECRET)
    except ValueError:
        record = logging.LogRecord(
            "uvicorn.error", logging.ERROR, "", 0, "failed: %s\nmore", (SECRET,), sys.exc_info()
        )
    line = JsonLines().format(record)
    assert SECRET not in line
    assert json.loads(line)["event"] == "failed: %s"
    assert json.loads(line)["failure"] == "ValueError"


def test_the_server_logs_to_the_same_stream() -> None:
    names = ("sottovoce.serve", "uvicorn", "uvicorn.error", "asyncio")
    before = {
        name: (logging.getLogger(name).handlers, logging.getLogger(name).propagate,
               logging.getLogger(name).level)
        for name in names
    }  # fmt: skip
    stream = io.StringIO()
    try:
        log_to(stream)
        logging.getLogger("uvicorn.error").info("Started %s", SECRET)
        logging.getLogger("asyncio").error("lost %s", SECRET)
    finally:
        for name, (handlers, propagate, level) in before.items():
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == [
        "Started %s",
        "lost %s",
    ]


@pytest.mark.parametrize("path", ["/", "/docs", "/healthz", "/nothing"])
def test_every_answer_is_guarded_by_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
