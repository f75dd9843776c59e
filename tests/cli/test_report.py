"""`sottovoce report`: real run files in, one page out, and an exit code a build can use."""

import json
from pathlib import Path

import pytest
from tests.conftest import RunCli
from tests.report.runs import audit_of, train_run, write_run


def test_help_has_an_example(run_cli: RunCli) -> None:
    result = run_cli("report", "--help")
    assert result.exit_code == 0
    assert "sottovoce report " in result.stdout.split("Examples", 1)[1]


def test_a_release_made_by_deid_is_reported(run_cli: RunCli, tmp_path: Path) -> None:
    corpus, out = tmp_path / "calls.jsonl", tmp_path / "released.jsonl"
    assert run_cli("corpus", "make", "communication", "-o", corpus, "--size", 60).exit_code == 0
    options = ("--detector", "gold", "--labels", "built-in", "--strategy", "entity")
    made = run_cli("deid", corpus, "-o", out, *options, "--epsilon", 3)
    assert made.exit_code == 0, made.stderr
    page = tmp_path / "report.html"
    result = run_cli("report", f"{out}.run.json", "-o", page, "--title", "Calls", "--json")
    assert result.exit_code == 1, result.stderr  # one person has many values
    (stage,) = json.loads(result.stdout)["stages"]
    assert stage["verb"] == "deid"
    assert [each["unit"] for each in stage["guarantees"]] == ["token", "utterance", "user"]
    assert stage["derived_again"] == [True, True, True]
    text = page.read_text()
    assert "<h1>Calls</h1>" in text
    assert "Private values, by type" in text


def test_two_runs_are_compared(run_cli: RunCli, tmp_path: Path) -> None:
    a = write_run(tmp_path / "plain", train_run(noise=None, method="sgd"))
    b = write_run(tmp_path / "private", train_run())
    result = run_cli("report", "--compare", a, b, "-o", "-")
    assert result.exit_code == 1, result.stderr
    assert "Compared: plain and private" in result.stdout
    assert "plain: There is no guarantee" in result.stderr


def test_a_defect_is_written_and_fails_the_build(run_cli: RunCli, tmp_path: Path) -> None:
    run = train_run(noise=100)
    folder = write_run(tmp_path / "wrong", run, audit_of(run, correct=99))
    result = run_cli("report", folder, "-o", tmp_path / "report.html")
    assert result.exit_code == 1
    assert "wrong: The guarantee of epsilon" in result.stdout
    assert "Do not release</h2>" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("arguments", [[], ["nowhere"], ["--compare", "nowhere", "nowhere"]])
def test_bad_input_is_one_sentence_and_leaves_no_page(
    run_cli: RunCli, tmp_path: Path, arguments: list[str]
) -> None:
    result = run_cli("report", *arguments, "-o", tmp_path / "report.html")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: Expected")
    assert not (tmp_path / "report.html").exists()
