"""The pages load nothing from other servers, and the documentation describes every endpoint."""

import re

import pytest
from starlette.testclient import TestClient

PAGES = ["/", "/docs", "/static/playground.js", "/static/style.css"]


@pytest.mark.parametrize("path", PAGES)
def test_nothing_comes_from_elsewhere(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert not re.search(r"https?://|@import|url\(", answer.text)
    # The policy forbids inline scripts and styles.
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=", answer.text)
    assert ".innerHTML" not in answer.text


def test_the_documentation_has_every_endpoint_and_every_field(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    page = client.get("/docs").text
    for path, methods in described["paths"].items():
        assert f"<code>{path}</code>" in page
        for operation in methods.values():
            assert operation["description"]
    for name in ("epsilon_per_count", "noise_multiplier", "pi_min", "detector", "nbest"):
        assert f"<code>{name}</code>" in page


def test_about_tells_what_is_loaded_and_allowed(client: TestClient) -> None:
    told = client.get("/about").json()
    assert told["detector"] == "gazetteer+patterns"
    assert told["parse"] is True
    assert told["rescore"] is False
    assert told["limits"] == {
        "body_bytes": 1 << 20, "seconds": 20, "memory_bytes": 1 << 30, "texts": 256,
        "characters": 10_000, "characters_in_all": 200_000,
    }  # fmt: skip
    assert "add up" in told["epsilon_is"]


@pytest.mark.parametrize("path", ["/", "/docs", "/about", "/healthz"])
def test_head_is_get_without_a_body(client: TestClient, path: str) -> None:
    answer = client.head(path)
    assert answer.status_code == 200
    assert answer.content == b""
    assert answer.headers["content-length"] == str(len(client.get(path).content))


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_form_cannot_send_a_request(client: TestClient, kind: str) -> None:
    answer = client.post("/deidentify", content=b'{"text": "x"}', headers={"Content-Type": kind})
    assert answer.status_code == 415


def test_no_redirect_goes_to_the_host_of_the_caller(client: TestClient) -> None:
    headers = {"Host": "evil.example"}
    answer = client.get("/about/", headers=headers, follow_redirects=False)
    assert answer.status_code == 404
    assert "location" not in answer.headers
