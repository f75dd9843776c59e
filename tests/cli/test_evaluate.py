"""`sottovoce evaluate`: what it prints, in which shape, and what it refuses."""

import json
from pathlib import Path

import pytest
from tests.conftest import RunCli

RIGHT: list[dict[str, object]] = [
    {"tokens": ["call", "my", "mum"], "slots": ["O", "B-who", "I-who"], "intent": "call"},
    {"tokens": ["stop"], "slots": ["O"], "intent": "stop"},
]
GUESS: list[dict[str, object]] = [
    {"tokens": ["call", "my", "mum"], "slots": ["O", "O", "B-who"], "intent": "call"},
    {"tokens": ["stop"], "slots": ["O"], "intent": "stop"},
]
EXPECTED = {"ser": 1 / 3, "intent_accuracy": 1.0, "slot_f1": 0.0, "exact_match": 0.5}


def written(path: Path, records: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def right(tmp_path: Path) -> Path:
    return written(tmp_path / "right.jsonl", list(RIGHT))


@pytest.fixture
def guess(tmp_path: Path) -> Path:
    return written(tmp_path / "guess.jsonl", list(GUESS))


def test_json_is_four_numbers(run_cli: RunCli, right: Path, guess: Path) -> None:
    result = run_cli("evaluate", right, guess, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == pytest.approx(EXPECTED)


def test_intervals_are_added_when_asked_for(run_cli: RunCli, right: Path, guess: Path) -> None:
    result = json.loads(run_cli("evaluate", right, guess, "--json", "--intervals").stdout)
    assert list(result) == [*EXPECTED, "intervals"]
    for name, interval in result["intervals"].items():
        assert interval["low"] <= result[name] <= interval["high"]


def test_against_a_baseline(run_cli: RunCli, right: Path, guess: Path) -> None:
    result = json.loads(run_cli("evaluate", right, right, "--baseline", guess, "--json").stdout)
    assert result["baseline"] == pytest.approx(EXPECTED)
    assert result["change"]["ser"]["difference"] == pytest.approx(-1 / 3)
    assert result["change"]["ser"]["relative"] == pytest.approx(-1.0)
    assert result["change"]["slot_f1"]["relative"] is None
    shown = run_cli("evaluate", right, right, "--baseline", guess)
    assert "-100.0%" in shown.stdout


def test_by_slot(run_cli: RunCli, right: Path, guess: Path) -> None:
    result = json.loads(run_cli("evaluate", right, guess, "--by-slot", "--json").stdout)
    assert result["by_slot"] == {
        "who": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "reference": 1, "hypothesis": 1}
    }
    assert "who" in run_cli("evaluate", right, guess, "--by-slot").stdout


def test_a_table_for_people(run_cli: RunCli, right: Path, guess: Path) -> None:
    shown = run_cli("evaluate", right, guess, "--confidence", "0.9").stdout
    for part in ("2 utterances", "semantic error rate", "33.33", "0.9 interval", " to "):
        assert part in shown


def test_formats_may_differ(run_cli: RunCli, right: Path, tmp_path: Path) -> None:
    other = tmp_path / "guess.conll"
    assert run_cli("corpus", "convert", right, "-o", other).exit_code == 0
    result = run_cli("evaluate", right, other, "--json")
    assert json.loads(result.stdout)["slot_f1"] == 1.0
    piped = run_cli("evaluate", right, "-", "--json", input=right.read_bytes())
    assert json.loads(piped.stdout)["exact_match"] == 1.0


def test_what_does_not_fit(run_cli: RunCli, right: Path, tmp_path: Path) -> None:
    short = written(tmp_path / "short.jsonl", list(RIGHT[:1]))
    other = written(tmp_path / "other.jsonl", RIGHT[::-1])
    cases = {
        (right, short): "as many hypotheses as the 2 utterances of the reference, got 1.",
        (right, other): "Expected the same words in reference and hypothesis",
        (right, tmp_path / "none.jsonl"): "found nothing there",
        ("-", "-"): "got - twice",
    }
    for arguments, sentence in cases.items():
        result = run_cli("evaluate", *arguments, "--json")
        assert result.exit_code == 2
        assert sentence in result.stderr
        assert result.stderr.count("\n") == 1
        assert not result.stdout
    assert run_cli("evaluate", right, right, "--confidence", "95").exit_code == 2


def test_errors_by_intent_and_user(run_cli: RunCli, tmp_path: Path) -> None:
    rows = [("ann", "call", "call"), ("ann", "call", "stop"), ("bob", "stop", "stop")]
    for name, place in (("right", 1), ("guess", 2)):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(
                json.dumps({"text": "a b", "intent": row[place], "user": row[0]}) + "\n"
                for row in rows
            )
        )
    paths = (tmp_path / "right.jsonl", tmp_path / "guess.jsonl")
    result = run_cli("evaluate", *paths, "--by", "intent", "--by", "user", "--json")
    assert "do not publish" in result.stderr
    found = json.loads(result.stdout)["by"]
    assert found["intent"]["call"]["intent_accuracy"] == 0.5
    assert found["intent"]["call"]["confused_with"] == "stop"
    assert found["intent"]["stop"]["confused_with"] is None
    assert {name: row["utterances"] for name, row in found["user"].items()} == {"ann": 2, "bob": 1}
    assert "confused with" in run_cli("evaluate", *paths, "--by", "intent").stdout
    assert "with the key colour" in run_cli("evaluate", *paths, "--by", "colour").stderr
