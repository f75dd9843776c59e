"""`POST /parse`: intents and slots of a model, or a sentence that there is none."""

from pathlib import Path

from starlette.testclient import TestClient
from tests.serve.conftest import ClientOf

from sottovoce.nlu.encoders.clc import Clc, ClcShape
from sottovoce.nlu.encoders.words import Words
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.runs.run import save_run
from sottovoce.nlu.schema import Schema


def test_intent_probability_and_slots(client: TestClient) -> None:
    answer = client.post("/parse", json={"text": " please  call Maria Lopez "})
    assert answer.status_code == 200
    assert answer.json() == {
        "parses": [
            {
                "intent": "call",
                "probability": 0.75,
                "tokens": ["please", "call", "Maria", "Lopez"],
                "tags": ["O", "O", "B-contact", "B-contact"],
                "slots": [
                    {"start": 2, "end": 3, "type": "contact", "text": "Maria"},
                    {"start": 3, "end": 4, "type": "contact", "text": "Lopez"},
                ],
            }
        ]
    }


def test_many_texts_stay_in_order(client: TestClient) -> None:
    texts = ["call Ann" if place % 3 else "stop" for place in range(100)]
    parses = client.post("/parse", json={"texts": texts}).json()["parses"]
    assert [parse["intent"] == "call" for parse in parses] == [text != "stop" for text in texts]


def test_a_text_without_a_word_is_refused(client: TestClient) -> None:
    answer = client.post("/parse", json={"texts": ["call Ann", "  "]})
    assert answer.status_code == 422
    assert answer.json()["error"] == "Expected at least one word in every text."


def test_without_a_run_one_sentence(client_of: ClientOf) -> None:
    answer = client_of().post("/parse", json={"text": "call Ann"})
    assert answer.status_code == 503
    assert answer.json()["error"] == "No model is loaded; start the service with --run RUN."
    assert client_of().get("/about").json()["parse"] is False


def test_a_run_folder_is_loaded_and_asked(client_of: ClientOf, tmp_path: Path) -> None:
    shape = ClcShape(word_width=4, filters=3, hidden=5, layers=1)
    schema = Schema(intents=("call", "stop"), slot_types=("who",), slots_of=None, declared=True)
    model = JointModel(schema, Clc(Words.hashed(10), shape))
    save_run(tmp_path, model, {"verb": "train"})
    loaded = client_of(run=str(tmp_path))
    assert loaded.get("/about").json()["parse"] is True
    [parse] = loaded.post("/parse", json={"text": "call mum now"}).json()["parses"]
    [expected] = model.predict([["call", "mum", "now"]])
    assert (parse["intent"], parse["tags"]) == (expected.intent, list(expected.slots))
    assert parse["probability"] == expected.probability
