"""`POST /rescore` chooses what the library chooses, and keeps nothing between two calls."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.serve.conftest import ClientOf

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.lm.language_model import load_lm, save_ngram
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.formats.json_lists import to_object
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.rescoring.run import Tuned, rescore
from sottovoce.personalize.rescoring.scores import Adaptation, Weights
from sottovoce.personalize.rescoring.stream import Personalisation

NAMES = ["mum", "mom", "dan", "ann", "eve", "bob"]
TEXT = [f"{verb} {name}" for verb in ("call", "ring") for name in NAMES] * 3
TUNED = Tuned(Weights(), Weights(bonus=0.1), 2.0)


def said(client: int, turn: int) -> NBest:
    """Every client calls one person; sometimes the recogniser outputs another name."""
    mine, other = NAMES[client % 6], NAMES[(client + 1) % 6]
    heard = [other, mine] if turn % 3 == 2 else [mine, other]
    rows = tuple(Hypothesis(f"call {name}", am=-1 - 0.05 * rank) for rank, name in enumerate(heard))
    return NBest(f"{client}-{turn}", rows, f"call {mine}", f"c{client}", turn)


LISTS = [said(client, turn) for client in range(6) for turn in range(6)]


def objects(lists: list[NBest]) -> list[dict[str, Any]]:
    rows = [to_object(each) for each in lists]
    return [{key: value for key, value in row.items() if key != "reference"} for row in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lm")
    vocabulary = Vocabulary.from_text(TEXT, 20)
    save_ngram(folder / "lm", train_ngram(TEXT, vocabulary, 2))
    skewed = vocabulary.unigram * np.linspace(1, 3, len(vocabulary.words))
    Marginals(vocabulary.words, skewed / skewed.sum()).save(folder / "marginals.json")
    (folder / "weights.json").write_text(json.dumps(TUNED.to_json()))
    return folder


@pytest.fixture(scope="module")
def rescorer(client_of: ClientOf, folder: Path) -> TestClient:
    return client_of(
        lm=str(folder / "lm"),
        marginals=str(folder / "marginals.json"),
        weights=str(folder / "weights.json"),
    )


def test_the_choices_are_those_of_the_library(rescorer: TestClient, folder: Path) -> None:
    answer = rescorer.post("/rescore", json={"lists": objects(LISTS)})
    assert answer.status_code == 200, answer.text
    model = load_lm(folder / "lm")
    settings = Personalisation(
        adaptation=Adaptation(alpha=0.5, beta=0.45), counting=Counting(sigma=1.0)
    )
    everybody = Marginals.load(folder / "marginals.json").over(model.vocabulary)
    expected = rescore(LISTS, model, settings, TUNED, everybody).texts
    choices = answer.json()["choices"]
    assert {each["id"]: each["text"] for each in choices} == expected
    # Earlier lists of the client correct the recognition error.
    assert any(each["text"] != each["first_pass"] for each in choices)
    assert all(len(each["scores"]) == 2 for each in choices)


def test_nothing_is_kept_between_two_calls(rescorer: TestClient) -> None:
    weights = {"alpha": 0, "beta": 0.9}
    alone = {"lists": [objects(LISTS)[2]], **weights}
    before = rescorer.post("/rescore", json=alone).json()["choices"][0]
    assert before["text"] == before["background"]
    history = {"lists": objects(LISTS[:3]), **weights}
    assert rescorer.post("/rescore", json=history).json()["choices"][2]["text"] == "call mum"
    assert rescorer.post("/rescore", json=alone).json()["choices"][0] == before
    assert before["text"] != "call mum"


def test_equal_ids_and_no_clients_are_fine(rescorer: TestClient) -> None:
    lists = [{"nbest": [{"text": "call mum"}]}, {"nbest": [{"text": "ring ann", "score": -2}]}]
    choices = rescorer.post("/rescore", json={"lists": lists}).json()["choices"]
    assert [(each["id"], each["text"]) for each in choices] == [("", "call mum"), ("", "ring ann")]


@pytest.mark.parametrize(
    "body",
    [
        {"lists": []},
        {"lists": [{"nbest": []}]},
        {"lists": [{"nbest": [{"text": "call mum", "am": 1e300}]}]},
        {"lists": [{"nbest": [{"text": "call mum", "am": "loud"}]}]},
        {"lists": [{"nbest": [{"text": "call mum"}]}], "alpha": 0.9, "beta": 0.9},
        {"lists": [{"nbest": [{"text": "call mum"}], "client": 7}]},
        {"lists": [{"nbest": [{"text": "call mum"}]}], "weights": "/etc/passwd"},
    ],
)
def test_what_is_refused(rescorer: TestClient, body: dict[str, Any]) -> None:
    answer = rescorer.post("/rescore", json=body)
    assert answer.status_code == 422
    assert "mum" not in answer.text


def test_without_a_language_model_one_sentence(client: TestClient) -> None:
    answer = client.post("/rescore", json={"lists": [{"nbest": [{"text": "call mum"}]}]})
    assert answer.status_code == 503
    assert "--lm" in answer.json()["error"]


def test_bad_weights_are_refused_at_the_start(
    client_of: ClientOf, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "weights.json").write_text("{]")
    with pytest.raises(InvalidInput, match="tuned weights"):
        client_of(lm=str(folder / "lm"), weights=str(tmp_path / "weights.json"))
