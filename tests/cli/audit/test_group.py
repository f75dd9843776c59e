import json
import subprocess
import sys

import click
import pytest
from tests.conftest import RunCli

from sottovoce.cli import main
from sottovoce.cli.audit.group import bound

GUESSES = ("--canaries", 1000, "--guesses", 100, "--correct", 90, "--delta", 1e-5)
VERDICTS = (
    "--true-positives", 450, "--members", 500, "--false-positives", 20, "--non-members", 500,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    verbs = {**main.VERBS, "audit": "sottovoce.cli.audit.group:audit"}
    monkeypatch.setattr(main, "VERBS", verbs)


@pytest.mark.parametrize("name", sorted(bound.commands))
def test_every_bound_has_help_with_an_example_and_json(run_cli: RunCli, name: str) -> None:
    result = run_cli("audit", "bound", name, "--help")
    assert result.exit_code == 0
    assert f"sottovoce audit bound {name} " in result.stdout.split("Example", 1)[1]
    assert "--json" in result.stdout
    for parameter in bound.commands[name].params:
        assert not isinstance(parameter, click.Option) or parameter.help


@pytest.mark.parametrize(
    ("name", "epsilon"), [("one-run", 1.6261434806957262), ("one-run-gdp", 2.4564048929605633)]
)
def test_one_run_as_json(run_cli: RunCli, name: str, epsilon: float) -> None:
    result = run_cli("audit", "bound", name, *GUESSES, "--confidence", 0.95, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["epsilon_lower"] == pytest.approx(epsilon, rel=1e-9)


def test_clopper_pearson_as_json(run_cli: RunCli) -> None:
    result = run_cli("audit", "bound", "clopper-pearson", *VERDICTS, "--delta", 1e-5, "--json")
    found = json.loads(result.stdout)
    assert found["epsilon_lower"] == pytest.approx(2.6562614774634157, rel=1e-9)
    assert found["epsilon_lower_if_gaussian"] == pytest.approx(14.380132164725627, rel=1e-9)
    assert found["mu_lower"] == pytest.approx(2.6733507590987013, rel=1e-9)


def test_without_delta_nothing_is_said_of_gaussians(run_cli: RunCli) -> None:
    found = json.loads(run_cli("audit", "bound", "clopper-pearson", *VERDICTS, "--json").stdout)
    assert "mu_lower" not in found
    assert run_cli("audit", "bound", "clopper-pearson", *VERDICTS).stdout.count("\n") == 1


def test_people_read_one_sentence(run_cli: RunCli) -> None:
    result = run_cli("audit", "bound", "one-run", *GUESSES)
    assert result.stdout == (
        "With 95 % confidence epsilon is at least 1.62 at delta 1e-05, so a smaller epsilon "
        "claimed for this training is false (90 of 100 guesses about 1000 canaries were right; "
        "method: one-run bound of Steinke et al.).\n"
    )


def test_people_read_that_chance_is_no_evidence(run_cli: RunCli) -> None:
    few = ("--canaries", 200, "--guesses", 40, "--correct", 20)
    result = run_cli("audit", "bound", "one-run", *few)
    assert result.exit_code == 0
    assert "not evidence of safety" in result.stdout


def test_people_read_both_sentences_of_counts(run_cli: RunCli) -> None:
    result = run_cli("audit", "bound", "clopper-pearson", *VERDICTS, "--delta", 1e-5)
    assert "epsilon is at least 2.65 " in result.stdout
    assert "if the mechanism is Gaussian, epsilon is at least 14.3 " in result.stdout


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("one-run", *GUESSES, "--correct", 101), "Error: Expected correct from 0 to guesses"),
        (("one-run", *GUESSES, "--canaries", 10), "Error: Expected guesses from 0 to canaries"),
        (("one-run", *GUESSES, "--confidence", 95), "Error: Expected a confidence between"),
        (("one-run-gdp", *GUESSES, "--delta", 0), "Error: Expected delta > 0"),
        (("clopper-pearson", *VERDICTS, "--delta", 1), "Error: Expected delta in [0, 1), got 1."),
        (("clopper-pearson", *VERDICTS, "--members", 0), "Error: Expected members >= 1, got 0."),
    ],
)
def test_bad_input_is_one_sentence(
    run_cli: RunCli, args: tuple[object, ...], sentence: str
) -> None:
    result = run_cli("audit", "bound", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1


def test_help_loads_no_numpy() -> None:
    """`--help` is fast; numpy is loaded only when bounds are computed."""
    code = "import sys, sottovoce.cli.audit.group; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_bad_options_exit_with_2(run_cli: RunCli) -> None:
    assert run_cli("audit", "bound", "one-run", "--canaries", "many").exit_code == 2
    assert run_cli("audit", "bound", "one-run").exit_code == 2
