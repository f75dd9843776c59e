import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sottovoce.errors import InvalidInput
from sottovoce.nlu.runs.card import model_card, write_card
from sottovoce.privacy.guarantee import Claim, Guarantee, Relation, Unit

GUARANTEE = Guarantee(
    epsilon=2.99,
    delta=1e-5,
    unit=Unit.EXAMPLE,
    relation=Relation.ADD_OR_REMOVE,
    accountant="PLD",
    assumptions=("batches are secret",),
    not_covered=("the names of intents",),
)
RUN: dict[str, Any] = {
    "verb": "train",
    "versions": {"sottovoce": "0.1.0"},
    "configuration": {"method": "dp-sgd", "learning_rate": 0.002, "steps": 300, "decay": None},
    "seed": "keyed by the operating system",
    "guarantee": GUARANTEE.to_json(),
    "claimed": Claim.of(1.5, delta=1e-5, how="the paper's formula").to_json(),
    "metrics": {"test": {"ser": {"value": 0.101, "low": 0.09, "high": 0.12}, "slot_f1": 0.9}},
    "timings": {"seconds": 12.5},
    "data": {"name": "snips", "train": 13084, "test": 700},
}
CONFIG = {"sottovoce": "0.1.0", "model": {"encoder": {"kind": "bert", "source": "minilm"}}}
LABELS = {"intents": ["call"], "slot_types": ["who"]}
AUDIT = {
    "audit": 1,
    "attacks": [{"attack": "lira", "auc": 0.53, "auc_interval": [0.5, 0.56]}],
    "bounds": [
        {
            "epsilon_lower": 0.2,
            "delta": 1e-5,
            "confidence": 0.95,
            "method": "m",
            "evidence": "weak",
        },
        {
            "epsilon_lower": 0.7,
            "delta": 1e-5,
            "confidence": 0.95,
            "method": "m",
            "evidence": "best",
        },
    ],
    "defects": ["The guarantee is contradicted."],
    "not_compared": [],
}


def test_the_card_says_what_is_promised_and_what_is_not() -> None:
    card = model_card(RUN, CONFIG, LABELS, AUDIT)
    for wanted in (
        "# Intents and slots of snips",
        "at most e^2.99",
        "epsilon = 1.5 at delta = 1e-05 (the paper's formula)",
        "- batches are secret",
        "- the names of intents",
        "keyed by the operating system",
        "At least epsilon = 0.7",
        "AUC 0.530",
        "**Defect**: The guarantee is contradicted.",
        "| semantic error rate | 10.1 (9.0 to 12.0) |",
        "| slot F1 | 90.0 |",
        "sottovoce predict RUN",
        "| learning_rate | 0.002 |",
        "(from minilm)",
    ):
        assert wanted in card
    assert "weak" not in card
    for count in ("13,084", "13084", "12.5"):
        assert count not in card
    assert "provided that" not in card


def test_no_guarantee_is_said_as_plainly() -> None:
    nothing = {**GUARANTEE.to_json(), "epsilon": "inf", "verdict": "no-guarantee",
               "reasons": ["the model was trained without noise"]}  # fmt: skip
    card = model_card({**RUN, "guarantee": nothing, "claimed": None}, CONFIG, LABELS)
    assert "No guarantee can be given to any one example: the model was trained without" in card
    assert "**Claimed**" not in card
    assert "**Audit.** None is published" in card


def test_an_enormous_claim_is_a_power_of_ten() -> None:
    claim = {"epsilon": "inf", "log10_epsilon": 24.3, "delta": 1e-5, "how": "as printed"}
    assert "epsilon = 10^24.3" in model_card({**RUN, "claimed": claim}, CONFIG, LABELS)


def test_the_least_that_a_run_may_say() -> None:
    card = model_card({}, {}, {})
    assert "None is recorded" in card
    assert "None are published" in card


def test_made_anew_after_an_audit_without_torch(tmp_path: Path) -> None:
    for name, data in (("run", RUN), ("config", CONFIG), ("labels", LABELS)):
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    assert "None is published" in write_card(tmp_path).read_text()
    (tmp_path / "audit.json").write_text(json.dumps(AUDIT))
    code = (
        "import sys; from sottovoce.nlu.runs.card import write_card; "
        f"write_card({str(tmp_path)!r}); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert "At least epsilon = 0.7" in (tmp_path / "README.md").read_text()
    (tmp_path / "labels.json").unlink()
    with pytest.raises(InvalidInput, match=r"Expected labels\.json"):
        write_card(tmp_path)
