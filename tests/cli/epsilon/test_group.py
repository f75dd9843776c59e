"""`sottovoce epsilon`: the JSON is a contract, nonsense exits with 2 and one sentence."""

import json
from typing import Any

import pytest
from tests.conftest import RunCli

TRAINING = (
    "training --method edp-sgd --noise-multiplier 1 --decay linear --tau 0.1 --epochs 10 "
    "--steps-per-epoch 140 --sampling poisson --sampling-rate 0.007 --delta 5e-4 --workers 8"
)
DEID = "deid --strategy word --p 0.9 --pi-min 0.1"
FEDERATE = (
    "federate --mechanism laplace --epsilon-per-count 0.5 --max-words 15 --nbest 20 --sigma 1"
)

GUARANTEE_KEYS = {
    "epsilon", "delta", "unit", "relation", "accountant", "verdict", "reasons", "assumptions",
}  # fmt: skip


def as_json(run_cli: RunCli, command: str) -> dict[str, Any]:
    result = run_cli("epsilon", *command.split(), "--json")
    assert result.exit_code == 0, result.stderr
    data: dict[str, Any] = json.loads(result.stdout)
    return data


@pytest.mark.parametrize("command", [TRAINING, DEID, FEDERATE])
def test_the_shape_of_the_json(run_cli: RunCli, command: str) -> None:
    data = as_json(run_cli, command)
    assert set(data) == {"claimed", "guarantee", "effective_noise_multiplier"}
    assert set(data["claimed"]) == {"epsilon", "log10_epsilon", "delta", "how"}
    assert set(data["guarantee"]) == GUARANTEE_KEYS


@pytest.mark.parametrize(
    ("command", "claimed", "epsilon"),
    [
        (f"{TRAINING} --noise-split paper", 29.15, 698.3),
        (TRAINING, 29.15, 41.18),
        (TRAINING.replace("edp-sgd", "dp-sgd"), 29.15, 3.933),
        (DEID, 0.7472, 0.7472),
        (f"{DEID} --tokens 3", 0.7472, 3 * 0.7472),
        (FEDERATE, 0.5, 13.15),
        (f"{FEDERATE} --rounds 10 --release cumulative", 0.5, 131.5),
    ],
)
def test_claimed_beside_true(run_cli: RunCli, command: str, claimed: float, epsilon: float) -> None:
    data = as_json(run_cli, command)
    assert data["claimed"]["epsilon"] == pytest.approx(claimed, rel=1e-3)
    assert data["guarantee"]["epsilon"] == pytest.approx(epsilon, rel=1e-3)
    assert data["guarantee"]["verdict"] == "holds"


@pytest.mark.parametrize(
    "command",
    [
        f"{TRAINING} --alpha-source first-batch --alpha 1,2,0.5 --noise-shape isotropic",
        f"{TRAINING} --relation add-or-remove --sampling shuffle",
        "deid --strategy redact --p 0.9",
        f"{DEID} --pi-source same-corpus",
    ],
)
def test_no_guarantee_is_a_verdict_and_not_an_error(run_cli: RunCli, command: str) -> None:
    guarantee = as_json(run_cli, command)["guarantee"]
    assert guarantee["verdict"] == "no-guarantee"
    assert guarantee["epsilon"] == "inf"
    assert guarantee["reasons"]


def test_the_table_for_people(run_cli: RunCli) -> None:
    result = run_cli("epsilon", *f"{TRAINING} --noise-split paper".split())
    assert result.exit_code == 0
    for words in ("claimed", "29.2", "guarantee", "699", "Adding or removing any one example"):
        assert words in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("deid --strategy word --p 2 --pi-min 0.1", "Expected p to be a probability"),
        ("deid --strategy word --p 0.9", "Expected pi-min"),
        ("deid --strategy magic --p 0.9", "'magic' is not one of"),
        ("deid --strategy word --p many --pi-min 0.1", "not a valid float"),
        (f"{TRAINING} --alpha -1", "Expected every alpha > 0, got -1"),
        (f"{TRAINING} --alpha one,two", "Expected numbers separated by commas in --alpha"),
        (TRAINING.replace("--delta 5e-4", "--delta 0"), "Expected delta > 0"),
        (TRAINING.replace("--sampling-rate 0.007", ""), "Expected a sampling rate"),
        (TRAINING.replace("--sampling-rate 0.007", "--sampling-rate 7"), "Expected sampling rate"),
        (f"{FEDERATE} --scale 1", "exactly one of --epsilon-per-count and --scale"),
        (
            FEDERATE.replace("--epsilon-per-count 0.5", ""),
            "exactly one of --epsilon-per-count and --scale",
        ),
        (FEDERATE.replace("0.5", "-1"), "Expected --epsilon-per-count > 0"),
        (FEDERATE.replace("laplace", "gaussian"), "Expected --scale with gaussian noise"),
        (
            FEDERATE.replace("laplace", "gaussian").replace("--epsilon-per-count 0.5", "--scale 9"),
            "Expected delta > 0 with Gaussian noise",
        ),
        (f"{FEDERATE} --unit user", "Expected a mass cap"),
        ("cooking", "No such command"),
    ],
)
def test_nonsense_exits_with_2(run_cli: RunCli, command: str, message: str) -> None:
    result = run_cli("epsilon", *command.split())
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert "Traceback" not in result.stderr
