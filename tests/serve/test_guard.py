"""`POST /guard` and `POST /restore`: a conversation whose values only the caller keeps."""

from fastapi.testclient import TestClient


def test_a_conversation_goes_there_and_back(client: TestClient) -> None:
    first = client.post("/guard", json={"text": "call maria at 555-0199"}).json()
    assert first["texts"] == ["call <PER_1> at <PHONE_1>"]
    assert any("misses" in line for line in first["statement"])
    more = {"texts": ["maria and john"], "values": first["values"]}
    second = client.post("/guard", json=more).json()
    assert second["texts"] == ["<PER_1> and <PER_2>"]
    answer = {"text": "hello <PER_2>, <PER_1> and <PER_9>", "values": second["values"]}
    assert client.post("/restore", json=answer).json() == {
        "texts": ["hello john, maria and <PER_9>"]
    }


def test_the_service_keeps_nothing_and_refuses_other_values(client: TestClient) -> None:
    client.post("/guard", json={"text": "call maria"})
    blank = client.post("/restore", json={"text": "<PER_1>", "values": {}})
    assert blank.json() == {"texts": ["<PER_1>"]}
    bad = client.post("/guard", json={"text": "hi", "values": {"maria": "x"}})
    assert bad.status_code == 422
    assert "maria" not in bad.text
