import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sottovoce.cli.deid.group import deid


def run(*arguments: str, given: str | None = None) -> str:
    result = CliRunner().invoke(deid, ["explain", *arguments], input=given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_every_value_is_shown_with_its_reason(tmp_path: Path) -> None:
    shown = run("mail a@b.example by 5 May", "--detector", "patterns")
    assert "  a@b.example: EMAIL [patterns: e-mail (1.00)]" in shown.splitlines()
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("A@b.example\n")
    shown = run("mail a@b.example", "--detector", "patterns", "--allow", str(allowed))
    assert "a@b.example: stays, it is on the allow list" in shown


def test_lines_of_standard_input_as_json() -> None:
    lines = json.loads(run("-", "--detector", "patterns", "--json", given="a\nat 10:30\n"))
    assert [len(line["decisions"]) for line in lines] == [0, 1]
    assert lines[1]["decisions"][0]["value"] == "10:30"


def test_options_of_detectors() -> None:
    shown = run("tfn 123 456 782", "--detector", "patterns", "--country", "au")
    assert "tax file number" in shown
    assert "Weber: PER" in run("Frau Weber ist da", "--language", "de")


@pytest.mark.parametrize("given", ["ORG", "ORG=x", "COLOUR=0.5"])
def test_bad_thresholds_are_refused(given: str) -> None:
    result = CliRunner().invoke(deid, ["explain", "x", "--type-threshold", given])
    assert result.exit_code != 0
