"""`POST /epsilon` gives what `sottovoce epsilon --json` prints, and takes the same options."""

import json
from typing import Any

import click
import pytest
from pydantic import BaseModel
from starlette.testclient import TestClient
from tests.conftest import RunCli

from sottovoce.cli.epsilon import epsilon as command
from sottovoce.serve.epsilon import Deid, Federate, Training

RECIPES: list[dict[str, Any]] = [
    {"recipe": "training", "noise_multiplier": 1.0, "epochs": 3, "sampling_rate": 0.01,
     "steps_per_epoch": 10, "delta": 1e-5},
    {"recipe": "training", "method": "edp-sgd", "noise_multiplier": 1.0, "epochs": 2,
     "decay": "linear", "tau": 0.1, "sampling_rate": 0.05, "delta": 5e-4, "workers": 8,
     "noise_split": "paper", "alpha": [1.0, 2.0, 0.5], "noise_shape": "isotropic",
     "alpha_source": "first-batch"},
    {"recipe": "training", "noise_multiplier": 2.0, "epochs": 3, "sampling": "shuffle",
     "delta": 1e-5, "unit": "user", "relation": "replace-one", "alpha_source": "dp"},
    {"recipe": "deid", "strategy": "word", "p": 0.99, "pi_min": 0.01, "tokens": 10, "delta": 1e-6},
    {"recipe": "deid", "strategy": "redact", "p": 0.9},
    {"recipe": "deid", "strategy": "entity", "p": 0.9, "pi_min": 0.1, "recall": 0.99,
     "pi_source": "dp-histogram", "histogram_epsilon": 0.5, "delta": 1e-6},
    {"recipe": "federate", "epsilon_per_count": 0.5, "max_words": 15, "nbest": 20, "sigma": 1.0,
     "rounds": 10, "release": "cumulative"},
    {"recipe": "federate", "mechanism": "gaussian", "scale": 40.0, "max_words": 15, "nbest": 5,
     "sigma": 1.0, "unit": "user", "mass_cap": 20.0, "word_cap": 2.0, "cap": "per-round",
     "delta": 1e-6, "kernel": "normalised"},
]  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_answer_is_that_of_the_command(
    client: TestClient, run_cli: RunCli, recipe: dict[str, Any]
) -> None:
    answer = client.post("/epsilon", json=recipe)
    assert answer.status_code == 200, answer.text
    options = []
    for name, value in recipe.items():
        if name != "recipe":
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            options += [f"--{name.replace('_', '-')}", text]
    printed = run_cli("epsilon", recipe["recipe"], *options, "--json")
    assert printed.exit_code == 0, printed.stderr
    assert answer.json() == json.loads(printed.stdout)


@pytest.mark.parametrize(
    ("name", "model"), [("training", Training), ("deid", Deid), ("federate", Federate)]
)
def test_fields_and_defaults_are_the_options_of_the_command(
    name: str, model: type[BaseModel]
) -> None:
    options = {
        option.name: option
        for option in command.commands[name].params
        if isinstance(option, click.Option) and option.name != "as_json"
    }
    assert set(options) == set(model.model_fields) - {"recipe"}
    for field, about in model.model_fields.items():
        if field == "recipe":
            continue
        assert about.is_required() == options[field].required, field
        if not about.is_required() and field != "alpha":
            default = options[field].to_info_dict()["default"]
            assert about.default == (None if default is None else default), field


@pytest.mark.parametrize(
    "recipe",
    [
        {"recipe": "magic"},
        {"noise_multiplier": 1},
        {**RECIPES[0], "epochs": 0},
        {**RECIPES[0], "epochs": 10**9},
        {**RECIPES[0], "delta": 0},
        {**RECIPES[0], "unit": "token"},
        {**RECIPES[0], "sampling_rate": None},
        {**RECIPES[0], "noise_multiplier": "1"},
        {**RECIPES[3], "pi_min": None},
        {**RECIPES[6], "scale": 2.0},
        {**RECIPES[6], "mechanism": "gaussian", "delta": 1e-6},
        {**RECIPES[7], "mass_cap": None},
    ],
)
def test_recipes_that_make_no_sense_get_one_sentence(
    client: TestClient, recipe: dict[str, Any]
) -> None:
    answer = client.post("/epsilon", json=recipe)
    assert answer.status_code == 422
    assert answer.json()["error"].endswith(".")


def test_numbers_that_are_not_finite_are_refused(client: TestClient) -> None:
    for number in ("NaN", "Infinity", "1e999"):
        body = json.dumps(RECIPES[0]).replace("0.01", number)
        headers = {"Content-Type": "application/json"}
        assert client.post("/epsilon", content=body, headers=headers).status_code == 422
