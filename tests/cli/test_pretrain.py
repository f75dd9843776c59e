"""`sottovoce pretrain`: folders that `train --encoder` reads, and one sentence on bad input."""

import json
from pathlib import Path

import pytest
from tests.conftest import RunCli
from tests.nlu.tiny import tiny_bert

from sottovoce.nlu.encoders.bert import Bert, save_encoder
from sottovoce.nlu.pretraining import load_readout

COMMANDS = [
    {"tokens": ["call", "mum"], "slots": ["O", "B-who"], "intent": "call"},
    {"tokens": ["play", "jazz"], "slots": ["O", "B-what"], "intent": "play"},
    {"tokens": ["stop"], "slots": ["O"], "intent": "stop"},
]


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """A tiny initial encoder."""
    encoder = tiny_bert()
    encoder.pieces.tokenizer.add_special_tokens(["[MASK]"])
    encoder.network.resize_token_embeddings(12)  # type: ignore[operator]
    save_encoder(encoder, tmp_path / "start")
    return tmp_path / "start"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "commands"
    folder.mkdir()
    for part in ("train", "test"):
        lines = (json.dumps({**each, "id": part}) for each in COMMANDS * 2)
        (folder / f"{part}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_labelled_corpora_make_an_encoder_with_statistics(
    run_cli: RunCli, tmp_path: Path, start: Path, corpus: Path
) -> None:
    out = tmp_path / "adapted"
    result = run_cli(
        "pretrain", "--labelled", corpus, "--encoder", start, "--epochs", 2, "-o", out, "--json"
    )
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    assert record == json.loads((out / "pretraining.json").read_text())
    assert record["sources"] == [{"name": "commands", "utterances": 3}]
    assert record["steps"] == 2
    encoder, readout = load_readout(out)
    assert readout.sizes == (encoder.width, encoder.summary_width)
    assert not (out / "checkpoint.pt").exists()


def test_text_makes_an_encoder(run_cli: RunCli, tmp_path: Path, start: Path) -> None:
    text = tmp_path / "public.txt"
    text.write_text("call mum\nplay jazz\n" * 60)
    out = tmp_path / "small"
    result = run_cli("pretrain", text, "--encoder", start, "--epochs", 1, "--limit", 100, "-o", out)
    assert result.exit_code == 0, result.stderr
    assert "100 utterances" in result.stdout
    assert "on held-out lines" in result.stdout
    assert Bert.load(out).width == 12


def test_a_finished_folder_is_not_overwritten(
    run_cli: RunCli, tmp_path: Path, start: Path, corpus: Path
) -> None:
    arguments = ("pretrain", "--labelled", corpus, "--encoder", start, "-o", tmp_path / "out")
    assert run_cli(*arguments).exit_code == 0
    again = run_cli(*arguments)
    assert again.exit_code == 2
    assert again.stderr.startswith("Error: Expected an empty folder, got a finished encoder")
    resumed = run_cli(*arguments, "--resume")
    assert resumed.exit_code == 2
    assert "Expected an interrupted pretraining" in resumed.stderr


def test_bad_input_is_one_sentence(run_cli: RunCli, tmp_path: Path, start: Path) -> None:
    bare = tmp_path / "bare.txt"
    bare.write_text("call mum\n")
    for arguments, expected in (
        (("--labelled", bare), "Expected intents or slots in the corpus bare, found none."),
        (("--labelled", bare, bare), "Expected sources with different names, got bare twice."),
        (("--labelled", tmp_path), "Expected a file such as train.jsonl"),
        ((bare, "--learning-rate", -1), "Expected learning_rate"),
    ):
        result = run_cli("pretrain", *arguments, "--encoder", start, "-o", tmp_path / "new")
        assert result.exit_code == 2
        assert result.stderr.startswith(f"Error: {expected}"), result.stderr
        assert result.stderr.count("\n") == 1
