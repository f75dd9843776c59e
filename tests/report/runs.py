"""Run files as the verbs write them, made quickly: together they fill every part of the page.

Ledgers, guarantees and audits are made by the classes that make them in earnest; what a training
would have measured is made up.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.audit import AuditResult, measure_all, one_run_bound
from sottovoce.privacy.facts import NoisySum, Sampling, Unprotected
from sottovoce.privacy.guarantee import SEEDED_STAMP, Claim, Relation, Unit
from sottovoce.privacy.ledger import Ledger

DELTA = 1e-5
EVERYONE = 0.0
"""No sampling: the analytic accountant is fast, the one for sampled steps is not."""


def score(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.02, "high": value + 0.02}


def train_run(
    *,
    noise: float | None = 20.0,
    steps: int = 100,
    rate: float = EVERYONE,
    method: str = "dp-sgd",
    accuracy: float = 0.9,
    speed: float = 1000.0,
    claimed: float | None = None,
    delta: float = DELTA,
    data: str = "communication",
    points: int = 9,
    seeded: bool = False,
) -> dict[str, Any]:
    """The run.json of a training; without noise it has no guarantee."""
    ledger = Ledger(unit=Unit.UTTERANCE, relation=Relation.ADD_OR_REMOVE)
    fact = _step(noise, rate, seeded=seeded)
    history: list[dict[str, Any]] = []
    for place in range(points):
        step = round(steps * (place + 1) / points)
        ledger.spend(fact, step - (history[-1]["step"] if history else 0))
        spent = None if noise is None else ledger.guarantee(delta).epsilon
        history.append({"step": step, "loss": 3 / (1 + place), "epsilon": spent})
    ledger.leave_uncovered("the words of the vocabulary, if they were read off private text")
    claim = Claim.of(claimed, delta=delta, how="the paper's arithmetic") if claimed else None
    return {
        "verb": "train",
        "versions": {"sottovoce": "0", "torch": "2"},
        "configuration": {
            "method": method,
            "epochs": 5,
            "plan": {"clip_norm": 1.0, "noise_multiplier": noise},
        },
        "seed": SEEDED_STAMP if seeded else "keyed by the operating system",
        "ledger": ledger.to_json(),
        "guarantee": ledger.guarantee(delta).to_json(),
        "claimed": None if claim is None else claim.to_json(),
        "metrics": {
            "valid": {"intent_accuracy": score(accuracy - 0.01)},
            "test": {
                "ser": score(1.05 - accuracy),
                "intent_accuracy": score(accuracy),
                "slot_f1": score(accuracy - 0.04),
                "exact_match": score(accuracy - 0.2),
            },
        },
        "history": history,
        "timings": {"seconds": 9000 / speed, "steps": steps, "examples_per_second": speed},
        "data": {"name": data, "train": 2000, "valid": 200, "test": 2000},
    }


def _step(noise: float | None, rate: float, *, seeded: bool) -> NoisySum | Unprotected:
    if noise is None:
        return Unprotected(unit=Unit.UTTERANCE, reason="plain SGD adds no noise", seeded=seeded)
    return NoisySum(
        unit=Unit.UTTERANCE,
        clip_norm=1.0,
        noise_stds=(noise,),
        sampling=Sampling.POISSON if rate else Sampling.EVERYONE,
        sampling_rate=rate or None,
        seeded=seeded,
    )


def audit_of(run: Mapping[str, Any], *, leak: float = 0.4, correct: int = 60) -> AuditResult:
    """An audit with two attacks and one bound; `correct` of 100 guesses were right."""
    from sottovoce.privacy.guarantee import Guarantee

    generator = np.random.default_rng(0)
    members, others = generator.normal(leak, 1, 2000), generator.normal(0, 1, 2000)
    scores = {
        "loss threshold": (members, others),
        "RMIA": (members + generator.normal(leak, 0.5, 2000), others),
    }
    return AuditResult(
        attacks=tuple(measure_all(scores)),
        bounds=(one_run_bound(canaries=100, guesses=100, correct=correct, delta=DELTA),),
        guarantee=Guarantee.from_json(run["guarantee"]),
        notes=("shadow did not run: no shadow model was given",),
    )


def rescore_result(wer: float = 4.6) -> dict[str, Any]:
    """What `sottovoce rescore --json` prints."""

    def rate(value: float) -> dict[str, Any]:
        return {"wer": value, "interval": [value - 0.6, value + 0.7]}

    return {
        "clients": 40,
        "utterances": 360,
        "words": 2900,
        "first_pass": rate(5.2),
        "background": rate(5.1),
        "adapted": rate(wer),
        "oracle": rate(3.4),
        "change_from_background": {"relative": -9.8, "interval": [-14.1, -5.0]},
        "change_from_first_pass": {"relative": -11.5, "interval": [-15.1, -6.0]},
        "rare_words": {"words": 900, "background_errors": 70, "adapted_errors": 41},
        "other_words": {"words": 2000, "background_errors": 78, "adapted_errors": 92},
        "tuned": {"power": 2.0},
        "seconds": 3.4,
    }


def complete_run(folder: Path, run: dict[str, Any], audit: AuditResult | None = None) -> Path:
    """Write a run folder with everything that `train` leaves: the ledger, a model, its hash."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = b"weights of " + folder.name.encode()
    digest = hashlib.sha256(weights).hexdigest()
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "config.json").write_text(json.dumps({"weights": {"sha256": digest}}))
    ledger = Ledger.from_json(run["ledger"])
    ledger.close()
    ledger.save(folder / "ledger.jsonl")
    if audit is not None:
        audit = replace(audit, model=digest)
    return write_run(folder, run | {"weights": digest}, audit)


def write_run(folder: Path, run: Mapping[str, Any], audit: AuditResult | None = None) -> Path:
    """Write a run folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
    if audit is not None:
        audit.write(folder)
    return folder
