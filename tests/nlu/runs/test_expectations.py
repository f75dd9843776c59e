"""What is said before a training: fewer errors with more utterances or a larger epsilon."""

import json
from importlib.resources import files

import pytest

from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.runs.expectations import FILE, HELP, advice, expected


def test_the_line_is_near_the_points_that_were_measured() -> None:
    points = json.loads((files("sottovoce.nlu.runs") / FILE).read_text())["points"]
    for point in points:
        found = expected(point["utterances"], point["epsilon"])
        assert found.low / 1.35 <= point["ser"] <= found.high * 1.35
        assert found.low <= found.middle <= found.high


def test_more_utterances_and_a_larger_epsilon_have_fewer_errors() -> None:
    assert expected(1000, 3).middle > expected(10_000, 3).middle
    assert expected(1000, 1).middle > expected(1000, 8).middle
    assert expected(1, 1e-3).high <= 1


def test_small_data_is_told_what_helps() -> None:
    private = Settings(method="dp-sgd", epsilon=1)  # type: ignore[arg-type]
    few, many = advice(private, 300), advice(private, 1_000_000)
    assert few is not None
    assert "With 300 utterances and epsilon 1, expect" in few
    assert few.endswith(HELP)
    assert many is not None
    assert HELP not in many
    assert "20,000" not in many


@pytest.mark.parametrize(
    "other",
    [
        {"method": "sgd"},
        {"method": "dp-sgd", "noise_multiplier": 1.0},
        {"method": "dp-sgd", "epsilon": 3, "unit": "user"},
        {"method": "dp-sgd", "epsilon": 3, "encoder": "minilm"},
        {"method": "dp-sgd", "epsilon": 3, "model": "clc"},
    ],
)
def test_nothing_is_said_about_what_was_not_measured(other: dict[str, object]) -> None:
    assert advice(Settings.from_json(other), 2400) is None
