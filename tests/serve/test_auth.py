"""Every path but the health check requires the correct token."""

import base64
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from tests.serve.conftest import ClientOf

from sottovoce.errors import InvalidInput
from sottovoce.serve import auth
from sottovoce.serve.settings import Settings

TOKEN = "a-token-that-is-long-enough"


@pytest.fixture(scope="module")
def guarded(client_of: ClientOf) -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as patch:
        # These tests send many wrong tokens.
        patch.setattr(auth, "GUESSES", 10**6)
        yield client_of(token=TOKEN)


PATHS = ["/", "/docs", "/about", "/openapi.json", "/static/playground.js", "/nothing", "/healthz/"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, "Basic !",
     "Bearer é"],
)  # fmt: skip
def test_without_the_token_there_is_nothing(guarded: TestClient, path: str, header: str) -> None:
    headers = {b"Authorization": header.encode()} if header else {}
    answer = guarded.get(path, headers=headers, follow_redirects=False)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert TOKEN not in answer.text


def test_the_token_is_asked_for_before_the_body_is_read(guarded: TestClient) -> None:
    assert guarded.post("/deidentify", json={"text": "x" * 2_000_000}).status_code == 401


def test_the_token_opens_everything(guarded: TestClient) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for path in PATHS[:5]:
        assert guarded.get(path, headers=headers).status_code == 200
    assert guarded.post("/deidentify", json={"text": "x"}, headers=headers).status_code == 200


def test_a_browser_sends_it_as_a_password(guarded: TestClient) -> None:
    pair = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    assert guarded.get("/", headers={"Authorization": f"Basic {pair}"}).status_code == 200


def test_health_is_open(guarded: TestClient) -> None:
    answer = guarded.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_the_description_names_the_token(guarded: TestClient) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    described = guarded.get("/openapi.json", headers=headers).json()
    assert described["security"] == [{"token": []}]
    assert described["paths"]["/healthz"]["get"]["security"] == []


@pytest.mark.parametrize("token", ["", "short", "x" * 19, "a token with blanks in it", "ü" * 30])
def test_a_weak_token_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Settings(token=token)
    assert not token or token not in str(refused.value)


def test_a_foreign_name_is_refused(client_of: ClientOf) -> None:
    local = client_of(hosts=frozenset({"localhost", "127.0.0.1", "::1"}))
    for host in ("localhost", "LOCALHOST:8321", "127.0.0.1:8321", "[::1]:8321"):
        assert local.get("/healthz", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example:8321", "", "[::2]"):
        assert local.get("/about", headers={"Host": host}).status_code == 421


def test_guessing_is_throttled_by_address_and_asking_without_a_token_is_no_guess(
    client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "GUESSES", 10)
    client = client_of(token=TOKEN)
    for _ in range(20):
        assert client.get("/about").status_code == 401
    wrong = [
        client.get("/about", headers={"Authorization": f"Bearer wrong{n}"}) for n in range(11)
    ]  # fmt: skip
    assert [each.status_code for each in wrong] == [401] * 10 + [429]
    assert int(wrong[-1].headers["retry-after"]) <= 60
    # Even the right token has to wait: otherwise 429 would tell that a guess was wrong.
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/about", headers=right).status_code == 429
    assert client.get("/healthz").status_code == 200
