"""`sottovoce lm`: train, score, and what it says about bad input."""

import json
from pathlib import Path

import pytest
from tests.conftest import RunCli

from sottovoce.cli import main

LINES = ["Call mum now!", "call dad", "please call mum", "hang up", "Hang up, please."] * 30


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "VERBS", {**main.VERBS, "lm": "sottovoce.cli.lm:lm"})


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "public.txt"
    path.write_text("\n".join(LINES))
    return path


@pytest.mark.parametrize("name", ["train", "score", "compile"])
def test_help_has_an_example(run_cli: RunCli, name: str) -> None:
    result = run_cli("lm", name, "--help")
    assert result.exit_code == 0
    assert f"sottovoce lm {name} " in result.stdout.split("Example", 1)[1]
    assert "--json" in result.stdout


def test_an_ngram_is_trained_and_scores(run_cli: RunCli, text: Path, tmp_path: Path) -> None:
    folder = tmp_path / "lm"
    result = run_cli("lm", "train", text, "-o", folder, "--order", "3", "--json")
    assert result.exit_code == 0, result.stderr
    trained = json.loads(result.stdout)
    assert 1 < trained["valid_perplexity"] < 5
    sentences = tmp_path / "sentences.txt"
    sentences.write_text("call mum\nmum call\n")
    scored = run_cli("lm", "score", folder, sentences, "--json")
    first, second = (row["log_probability"] for row in json.loads(scored.stdout))
    assert first > second
    assert "\tcall mum\n" in run_cli("lm", "score", folder, sentences).stdout


def test_a_compiled_ngram_scores_the_same(run_cli: RunCli, text: Path, tmp_path: Path) -> None:
    trained, compiled = tmp_path / "lm", tmp_path / "device"
    assert run_cli("lm", "train", text, "-o", trained, "--order", "2").exit_code == 0
    result = run_cli("lm", "compile", trained, "-o", compiled)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("Compiled ")
    scores = [run_cli("lm", "score", model, text).stdout for model in (trained, compiled)]
    assert scores[0] == scores[1] != ""
    arpa = run_cli("lm", "compile", trained / "model.arpa.gz", "-o", tmp_path / "arpa", "--json")
    assert json.loads(arpa.stdout)["ngrams"] > 10
    again = run_cli("lm", "compile", trained, "-o", compiled)
    assert again.exit_code == 2
    assert "name another" in again.stderr


def test_a_transformer_is_trained_and_resumes(run_cli: RunCli, text: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.set_num_threads(1)
    folder = tmp_path / "lm"
    arguments = ("lm", "train", text, "-o", folder, "--kind", "transformer", "--valid", text)
    first = run_cli(*arguments, "--epochs", "1")
    assert first.exit_code == 0, first.stderr
    assert "Epoch 1: perplexity" in first.stderr
    again = run_cli(*arguments, "--epochs", "1", "--json")
    assert again.stderr == ""
    assert json.loads(again.stdout)["epochs"] == []
    assert run_cli("lm", "score", folder, text).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["train", "{none}", "-o", "{out}"], "No such file"),
        (["train", "{empty}", "-o", "{out}"], "at most one line"),
        (["train", "{text}", "-o", "{out}", "--vocabulary-size", "1"], "size >= 2"),
        (["train", "{text}", "-o", "{out}", "--order", "0"], "order >= 1"),
        (["score", "{out}", "{text}"], "Expected an ARPA file or a folder"),
    ],
)
def test_bad_input(
    run_cli: RunCli, text: Path, tmp_path: Path, arguments: list[str], reason: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    names = {name: tmp_path / name for name in ("none", "empty", "out")}
    result = run_cli("lm", *(each.format(text=text, **names) for each in arguments))
    assert result.exit_code == 2
    assert reason in result.stderr
