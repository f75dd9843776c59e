import json

import numpy as np
import pytest

from sottovoce.audit.result import AttackOutcome, measure, measure_all, strongest
from sottovoce.errors import InvalidInput

RNG = np.random.default_rng(3)
LOW, HIGH = RNG.normal(0, 1, 1000), RNG.normal(1, 1, 1000)


def test_json_both_ways() -> None:
    outcome = measure("loss threshold", HIGH, LOW)
    assert AttackOutcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome


def test_intervals_of_several_attacks_hold_together() -> None:
    alone = measure("a", HIGH, LOW)
    first, second = measure_all({"a": (HIGH, LOW), "b": (LOW, HIGH)})
    assert first.confidence == second.confidence == pytest.approx(0.975)
    assert first.auc == alone.auc
    assert first.auc_interval.low < alone.auc_interval.low
    assert first.auc_interval.high > alone.auc_interval.high


def test_the_strongest_finds_most_members_at_a_low_rate() -> None:
    """A few certain finds beat a better average: that is where somebody is exposed."""
    exposed = LOW.copy()
    exposed[:100] = 10.0
    few = measure("few but certain", exposed, RNG.normal(0, 1, 1000))
    vague = measure("many but vague", HIGH, LOW)
    assert vague.auc > few.auc
    assert strongest([vague, few]) is few


def test_without_enough_non_members_the_area_decides() -> None:
    better = measure("better", [2.0, 3.0, 1.0], [0.0, 2.5, 0.5])
    worse = measure("worse", [2.0, 3.0, 0.0], [0.0, 2.5, 0.5])
    assert strongest([worse, better]) is better


def test_nothing_to_compare() -> None:
    with pytest.raises(InvalidInput, match="at least one attack, got none"):
        strongest([])
    with pytest.raises(InvalidInput, match="at least one attack, got none"):
        measure_all({})


@pytest.mark.parametrize("missing", ["attack", "auc_interval", "rates", "curve"])
def test_bad_json(missing: str) -> None:
    data = measure("a", HIGH, LOW).to_json()
    with pytest.raises(InvalidInput, match="Expected an attack in JSON"):
        AttackOutcome.from_json({k: v for k, v in data.items() if k != missing})
    with pytest.raises(InvalidInput, match="Expected an attack in JSON"):
        AttackOutcome.from_json(data | {missing: 3 if missing != "attack" else None, "auc": "x"})
