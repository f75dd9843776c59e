import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import RunCli

from sottovoce.corpora import Utterance, write
from sottovoce.deid.attacks.pairing import ReplacedValue
from sottovoce.deid.attacks.reader import best_success
from sottovoce.deid.attacks.run import run_attacks
from sottovoce.errors import InvalidInput

NAMES = ("anna", "ben", "maria", "john")
GOLD = ("--detector", "gold", "--labels", "communication")


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    write(
        tmp_path / "calls.jsonl",
        [
            Utterance(tokens=("call", NAMES[n % 4], "now"), slots=("O", "B-contact", "O"))
            for n in range(400)
        ],
    )
    return tmp_path / "calls.jsonl"


def attacked(run_cli: RunCli, calls: Path, *options: object) -> dict[str, dict[str, Any]]:
    out = calls.with_name("out.jsonl")
    released = run_cli("deid", calls, "-o", out, *GOLD, *options)
    assert released.exit_code == 0, released.stderr
    result = run_cli("deid", "attack", calls, out, *GOLD, "--json")
    assert result.exit_code == 0, result.stderr
    content = json.loads(result.stdout)
    assert content == json.loads(Path(f"{out}.attack.json").read_text())
    found = content["types"]["PER"]
    return {"stated": found, **{each["attack"]: each for each in found["attacks"]}}


def test_success_above_the_prior_stands_beside_the_epsilon(run_cli: RunCli, calls: Path) -> None:
    found = attacked(run_cli, calls, "--epsilon", 6)
    assert found["stated"]["epsilon"] == pytest.approx(6)
    assert found["stated"]["knows_the_mechanism"]
    assert found["stated"]["allowed"] == pytest.approx(
        best_success(found["stated"]["epsilon"], 0.25)
    )
    told = found["prior to posterior"]
    assert told["prior"] == 0.25
    assert told["success"] > 0.25
    assert told["above_prior"] == pytest.approx(told["success"] - 0.25)
    assert not found["stated"]["exceeds_epsilon"]
    assert found["context reconstruction"]["trials"] == 200


def test_a_placeholder_tells_nothing(run_cli: RunCli, calls: Path) -> None:
    found = attacked(run_cli, calls, "--strategy", "typed")
    assert found["stated"]["epsilon"] == 0
    assert found["prior to posterior"]["success"] == 0.25


def test_what_has_no_epsilon_is_allowed_everything(run_cli: RunCli, calls: Path) -> None:
    found = attacked(run_cli, calls, "--strategy", "consistent", "--within", "corpus")
    assert found["stated"]["epsilon"] == "inf"
    assert found["stated"]["allowed"] is None


def test_words_are_judged_as_words(run_cli: RunCli, calls: Path) -> None:
    found = attacked(run_cli, calls, "--strategy", "word", "--p", 0.5)
    assert found["prior to posterior"]["success"] > 0.4


def test_people_get_a_table(run_cli: RunCli, calls: Path) -> None:
    out = calls.with_name("out.jsonl")
    run_cli("deid", calls, "-o", out, *GOLD, "--epsilon", 2)
    result = run_cli("deid", "attack", calls, out, *GOLD)
    assert result.exit_code == 0, result.stderr
    assert "PER: 400 values, epsilon 2" in result.stdout
    assert "knowing the form)" in result.stdout
    assert "the statement is wrong" not in result.stderr
    assert "frequency matching" in result.stdout
    assert "out.jsonl.attack.json" in result.stdout


def test_a_release_that_was_altered_is_refused(run_cli: RunCli, calls: Path) -> None:
    out = calls.with_name("out.jsonl")
    run_cli("deid", calls, "-o", out, *GOLD, "--epsilon", 2)
    out.write_text(out.read_text() + "\n")
    result = run_cli("deid", "attack", calls, out, *GOLD)
    assert result.exit_code == 2
    assert "manifest describes" in result.stderr


def test_more_than_epsilon_allows_is_called_so() -> None:
    """A release that keeps everything, under a manifest that says epsilon 1."""
    told = [
        ReplacedValue(type="PER", value=name, output=name, before="call", after="now")
        for name in NAMES * 50
    ]
    guarantee = {
        "epsilon": 1.0, "delta": 0.0, "unit": "token", "relation": "replace-one", "notion": "dp",
        "accountant": "exact", "verdict": "holds", "reasons": [], "assumptions": [],
        "not_covered": [],
    }  # fmt: skip
    stated = {
        "strategy": "entity", "p": None, "epsilon": 1.0, "mechanism": {}, "guarantee": guarantee,
    }  # fmt: skip
    found = run_attacks(told, {"release": {"types": {"PER": stated}}})
    assert found["PER"]["exceeds_epsilon"]
    with pytest.raises(InvalidInput, match="among the types"):
        run_attacks(told, {"release": {"types": {}}})
    with pytest.raises(InvalidInput, match="to attack"):
        run_attacks([], {"release": {"types": {}}})
