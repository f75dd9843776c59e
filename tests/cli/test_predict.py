import json
from pathlib import Path

import pytest
import torch
from tests.conftest import RunCli
from tests.nlu.tiny import SCHEMA, UTTERANCES, shake, tiny_clc

from sottovoce.corpora import read, write
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.runs.run import save_run

KEYS = ["text", "tokens", "intent", "probability", "slots"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    model = JointModel(SCHEMA, tiny_clc())
    shake(model, 1.0)
    folder = tmp_path_factory.mktemp("run")
    save_run(folder, model, {"verb": "train"})
    return folder


def test_one_text_for_people_and_as_json(run: Path, run_cli: RunCli) -> None:
    shown = run_cli("predict", run, "--text", "call  mum")
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.startswith("call  mum\n  intent: ")
    (record,) = map(
        json.loads, run_cli("predict", run, "--text", "call mum", "--json").stdout.split("\n")[:-1]
    )
    assert list(record) == KEYS
    assert record["tokens"] == ["call", "mum"]
    assert 0 <= record["probability"] <= 1


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_corpus_in_and_a_corpus_out(
    tmp_path: Path, run: Path, run_cli: RunCli, batch_size: int
) -> None:
    write(tmp_path / "in.jsonl", UTTERANCES)
    out = tmp_path / "out.jsonl"
    done = run_cli(
        "predict", run, tmp_path / "in.jsonl", "-o", out, "--batch-size", batch_size,
        "--slot-probabilities",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "Labelled 4 utterances" in done.stderr
    found = list(read(out))
    assert [u.tokens for u in found] == [u.tokens for u in UTTERANCES]
    assert all(u.intent in SCHEMA.intents for u in found)
    assert [len(u.extra["slot_probabilities"]) for u in found] == [2, 3, 1, 4]


@pytest.mark.parametrize(
    "given", ["call mum\n\nstop\n", '{"text": "call mum"}\n{"tokens": ["stop"], "id": "7"}\n']
)
def test_standard_input_is_text_or_jsonl(run: Path, run_cli: RunCli, given: str) -> None:
    done = run_cli("predict", run, input=given)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["tokens"] for record in records] == [["call", "mum"], ["stop"]]
    assert [record.get("id") for record in records] == [None, "7" if "{" in given else None]


@pytest.mark.parametrize(
    ("arguments", "given", "complaint"),
    [
        (["--text", " "], "", "Expected some words"),
        (["--text", "a", "in.txt"], "", "got both"),
        (["none.jsonl"], "", "found nothing there"),
        ([], "", "found none"),
        ([], '{"words": 3}\n', "Expected tokens, text or reference"),
        (["-", "--from", "jsonl"], "call mum\n", "Expected a JSON object"),
    ],
)
def test_bad_input_is_one_sentence(
    run: Path, run_cli: RunCli, arguments: list[str], given: str, complaint: str
) -> None:
    done = run_cli("predict", run, *arguments, input=given)
    assert done.exit_code == 2
    assert complaint in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_what_is_no_run(tmp_path: Path, run_cli: RunCli) -> None:
    done = run_cli("predict", tmp_path, "--text", "call")
    assert done.exit_code == 2
    assert "Expected a run folder" in done.stderr


def test_a_summary_as_json(tmp_path: Path, run: Path, run_cli: RunCli) -> None:
    done = run_cli("predict", run, "-o", tmp_path / "o.jsonl", "--json", input="stop\n")
    assert json.loads(done.stdout)["utterances"] == 1
