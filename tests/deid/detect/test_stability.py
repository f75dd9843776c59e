import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sottovoce.corpora import Span, Utterance
from sottovoce.deid import Deidentifier, Setting
from sottovoce.deid.detect import Combination, Evaluation, Gazetteer, evaluate
from sottovoce.deid.detect.labels import LabelMap
from sottovoce.deid.detect.stability import Stability, stability

NAMES = ("ann", "bob", "eve", "joe")
CALLS = [
    Utterance(tokens=("call", one, "and", two), slots=("O", "B-who", "O", "B-who"))
    for one in NAMES
    for two in NAMES
]
LABELS = LabelMap({"who": "PER"})
LIST = Gazetteer({"PER": NAMES})


class Jealous:
    """Marks nobody beside Bob."""

    name = "jealous"

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        found = LIST.find(batch)
        return [
            [s for s in spans if u.text[s.start : s.end] == "bob"] if "bob" in u.text else spans
            for u, spans in zip(batch, found, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        return {"detector": self.name}


def test_a_list_is_stable_and_a_detector_that_looks_around_is_not() -> None:
    assert stability(LIST, CALLS, LABELS).changed == 0
    measured = stability(Jealous(), CALLS, LABELS)
    assert measured.swaps == len(CALLS)
    assert 0.05 < measured.lower < measured.share < measured.upper < 1


def test_lengths_of_values_do_not_count() -> None:
    longer = [replace(each, text=each.text) for each in CALLS]
    longer += [Utterance(tokens=("call", "bartholomew", "and", "ann"), slots=CALLS[0].slots)]
    names = Gazetteer({"PER": [*NAMES, "bartholomew"]})
    assert stability(names, longer, LABELS).changed == 0


@pytest.mark.parametrize(("swaps", "changed"), [(0, 0), (10, 0), (10, 10), (10, 3)])
def test_intervals(swaps: int, changed: int) -> None:
    measured = Stability(swaps, changed)
    assert 0 <= measured.lower <= measured.share <= measured.upper <= 1
    assert Stability.from_json(json.loads(json.dumps(measured.to_json()))) == measured


def test_the_statement_carries_it_beside_the_assumption() -> None:
    chosen = Combination([LIST])
    plain = evaluate(chosen, CALLS, LABELS)
    measured = replace(plain, stability=Stability(1000, 30))
    assert Evaluation.from_json(measured.to_json()).stability == measured.stability
    assert "Stability: 3.0%" in measured.lines()[-1]
    told = {}
    for name, evaluation in (("plain", plain), ("measured", measured)):
        deid = Deidentifier(detector=chosen, setting=Setting(epsilon=1), evaluation=evaluation)
        deid.release("call ann")
        told[name] = str(deid.statement().guarantees["token"].to_json())
    assert "3.0% of 1,000 swaps" in told["measured"]
    assert "swaps" not in told["plain"]
