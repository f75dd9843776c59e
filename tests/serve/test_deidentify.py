"""`POST /deidentify`: the same release and the same statement as the library's."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from sottovoce.deid import Deidentifier, Fields, Setting, Strategy
from sottovoce.serve.deidentify import OFFERED_STRATEGIES, PER_CALL, SharedDetector

TEXT = "call Maria in London at half past three"


def post(client: TestClient, **body: object) -> dict[str, object]:
    answer = client.post("/deidentify", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


@pytest.mark.parametrize("strategy", OFFERED_STRATEGIES)
def test_the_statement_is_that_of_the_library(client: TestClient, strategy: str) -> None:
    by: dict[str, Any] = {"epsilon": 2.0} if strategy == "response" else {"p": 0.9}
    answer = client.post("/deidentify", json={"text": TEXT, "strategy": strategy, **by}).json()
    deid = Deidentifier(
        detector="gazetteer+patterns",
        setting=Setting(strategy=strategy, **by),
        fields=Fields(user="drop", id="drop"),
    )
    deid.release(TEXT)
    expected = deid.statement()
    assert answer["statement"] == expected.lines()
    for unit, guarantee in expected.guarantees.items():
        told = answer["guarantees"][unit]
        assert told.pop("sentence") == str(guarantee)
        assert told == guarantee.to_json()
    for kind, each in expected.types.items():
        told = answer["types"][kind]["claimed"]
        assert told == (None if each.claimed is None else each.claimed.to_json())
    assert answer["epsilon_is"] == PER_CALL


def test_spans_lead_from_the_original_to_the_release(client: TestClient) -> None:
    answer = client.post("/deidentify", json={"text": f"🙂 {TEXT}", "strategy": "typed"}).json()
    [released] = answer["released"]
    assert released["text"] == "🙂 call [PER] in [LOC] at [TIME]"
    originals = [f"🙂 {TEXT}"[span["start"] : span["end"]] for span in released["spans"]]
    assert originals == ["Maria", "London", "half past three"]
    for span in released["spans"]:
        piece = released["text"][span["released_start"] : span["released_end"]]
        assert piece == f"[{span['type']}]"


def test_a_placeholder_that_is_sometimes_left_out_claims_zero_and_guarantees_nothing(
    client: TestClient,
) -> None:
    answer = client.post("/deidentify", json={"text": TEXT, "strategy": "typed", "p": 0.9}).json()
    assert answer["claimed"]["epsilon"] == 0
    assert answer["guarantees"]["utterance"]["verdict"] == "no-guarantee"
    assert answer["guarantees"]["utterance"]["epsilon"] == "inf"


def test_a_target_epsilon_is_what_one_token_costs(client: TestClient) -> None:
    answer = client.post("/deidentify", json={"text": TEXT, "epsilon": 3}).json()
    assert answer["guarantees"]["token"]["epsilon"] == pytest.approx(3)
    assert answer["guarantees"]["utterance"]["epsilon"] == pytest.approx(9)
    assert answer["claimed"]["epsilon"] == pytest.approx(3)


def test_several_texts_are_answered_in_order_and_the_worst_one_counts(client: TestClient) -> None:
    texts = ["call Maria", "nothing here", "from Maria in London"]
    answer = client.post("/deidentify", json={"texts": texts, "epsilon": 1}).json()
    assert [len(each["spans"]) for each in answer["released"]] == [1, 0, 2]
    assert answer["released"][1]["text"] == "nothing here"
    assert answer["guarantees"]["utterance"]["epsilon"] == pytest.approx(2)


def test_copies_of_a_text_in_one_call_add_up(client: TestClient) -> None:
    # Averaging over copies removes the noise, so they cannot cost what one costs.
    answer = client.post("/deidentify", json={"texts": ["call Maria"] * 50, "epsilon": 1}).json()
    assert answer["guarantees"]["utterance"]["epsilon"] == pytest.approx(50)


def test_texts_of_one_call_are_limited_together(client: TestClient) -> None:
    answer = client.post("/deidentify", json={"texts": ["x" * 9_900] * 100})
    assert answer.status_code == 422
    assert "200000 characters in all" in answer.text


def test_every_call_draws_anew_and_counts_for_itself(client: TestClient) -> None:
    # Twenty names among a thousand: equal by chance with probability below 1e-60.
    body = {"text": "call Maria and " * 20, "p": 1}
    answers = [client.post("/deidentify", json=body).json() for _ in range(2)]
    assert answers[0]["released"] != answers[1]["released"]
    assert answers[0]["guarantees"] == answers[1]["guarantees"]
    assert "seeded" not in str(answers)


def test_a_caller_may_choose_among_built_in_detectors_only(client: TestClient) -> None:
    for name in ("patterns", "patterns+gazetteer", "tagger"):
        answer = client.post("/deidentify", json={"text": TEXT, "detector": name})
        assert answer.status_code == 200
    for name in ("gold", "/etc/passwd", "tagger+/etc/passwd", "", "tagger+", "tagger\n"):
        answer = client.post("/deidentify", json={"text": TEXT, "detector": name})
        assert answer.status_code == 422, name
        assert "passwd" not in answer.text


def test_the_detector_that_is_named_is_used(client: TestClient) -> None:
    both = client.post("/deidentify", json={"text": TEXT, "detector": "patterns+gazetteer"}).json()
    assert both["detector"] == "gazetteer+patterns"
    one = client.post("/deidentify", json={"text": TEXT, "detector": "patterns"}).json()
    assert one["detector"] == "patterns"
    assert [span["type"] for span in one["released"][0]["spans"]] == ["TIME"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": TEXT, "texts": [TEXT]},
        {"texts": []},
        {"text": TEXT, "p": 0.9, "epsilon": 3},
        {"text": TEXT, "p": 1.1},
        {"text": TEXT, "p": "0.9"},
        {"text": TEXT, "epsilon": -1},
        {"text": TEXT, "delta": 1},
        {"text": TEXT, "strategy": "response"},
        {"text": TEXT, "strategy": "consistent"},
        {"text": TEXT, "strategy": "semantic", "epsilon": 1},
        {"text": 3},
        {"texts": [TEXT, None]},
        {"text": "x" * 10_001},
        {"texts": ["x"] * 257},
        {"text": TEXT, "seed": 1},
    ],
)
def test_what_is_refused(client: TestClient, body: object) -> None:
    answer = client.post("/deidentify", json=body)
    assert answer.status_code == 422
    assert "Maria" not in answer.text
    assert answer.json()["error"]


def test_what_is_offered_is_part_of_the_library() -> None:
    assert {str(each) for each in OFFERED_STRATEGIES} < {str(each) for each in Strategy}


def test_a_shared_detector_forgets_the_words_it_read() -> None:
    from sottovoce.deid.detect.detector import utterance_of

    shared = SharedDetector("patterns")
    first = shared._detector
    for _ in range(3):
        shared.find([utterance_of("x" * 200_000)])
    assert shared._detector is not first
    assert shared.find([utterance_of("at half past three")]) != [[]]
