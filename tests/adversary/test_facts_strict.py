"""Facts that nothing could have executed: refused by every constructor, and from JSON."""

import math
import os
from pathlib import Path
from typing import Any

import pytest

from sottovoce.errors import InvalidInput, LedgerDamaged, SottovoceError
from sottovoce.privacy.accounting import Entry, account
from sottovoce.privacy.facts import (
    BoundedRelease,
    Fact,
    MetricRelease,
    NoisySum,
    NoisyVector,
    ReplacedTokens,
    Sampling,
    Unprotected,
    fact_from_json,
)
from sottovoce.privacy.guarantee import Guarantee, Relation, Unit
from sottovoce.privacy.ledger import Budget, Ledger
from sottovoce.privacy.ledgers import merging
from sottovoce.privacy.ledgers.merging import compose

VALID: dict[type[Fact], dict[str, Any]] = {
    NoisySum: {"unit": "example", "clip_norm": 1.0, "noise_stds": [1.0], "sampling_rate": 0.1},
    NoisyVector: {"unit": "user", "noise": "laplace", "scale": 1.0, "sensitivity": 1.0,
                  "replace_sensitivity": 2.0, "sampling_rate": 0.5},
    BoundedRelease: {"unit": "user", "mechanism": "m", "epsilon": 1.0, "delta": 1e-6},
    MetricRelease: {"unit": "token", "mechanism": "m", "epsilon": 1.0},
    ReplacedTokens: {"unit": "token", "replace_probability": 0.5, "smallest_probability": 0.1,
                     "tokens": 1, "recall": 0.9},
    Unprotected: {"unit": "user", "reason": "no noise"},
}  # fmt: skip
NEVER = ["1", True, math.nan, math.inf, -math.inf, -1.0, [], {}, b"1", 1j]
NUMBERS = {
    "clip_norm", "scale", "sensitivity", "replace_sensitivity", "sampling_rate", "epsilon",
    "delta", "replace_probability", "smallest_probability", "recall", "tokens",
}  # fmt: skip
POSITIVE = {"clip_norm", "scale", "sensitivity", "replace_sensitivity", "sampling_rate", "tokens"}
SHARES = {"sampling_rate", "replace_probability", "recall", "smallest_probability"}
CASES = [
    (kind, name, value)
    for kind, arguments in VALID.items()
    for name in sorted(NUMBERS & arguments.keys())
    for value in [
        *NEVER,
        *([0, 0.0, 5e-324, 1e-200] if name in POSITIVE - {"scale"} else []),
        *([1.5, 2] if name in SHARES else []),
        *([1e200] if name in POSITIVE else []),
    ]
]


@pytest.mark.parametrize(("kind", "name", "value"), CASES)
def test_a_number_that_nothing_could_have_executed_is_refused(
    kind: type[Fact], name: str, value: Any
) -> None:
    kind(**VALID[kind])
    with pytest.raises(InvalidInput):
        kind(**VALID[kind] | {name: value})
    with pytest.raises(InvalidInput):
        fact_from_json({"kind": kind.kind, **VALID[kind], name: value})


@pytest.mark.parametrize("kind", VALID)
@pytest.mark.parametrize("unit", ["person", "", None, 1, ["user"]])
def test_a_unit_is_one_of_four(kind: type[Fact], unit: Any) -> None:
    with pytest.raises(InvalidInput, match="unit"):
        kind(**VALID[kind] | {"unit": unit})


def test_twin_unparsed_facts_take_negative_sensitivities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoisyVector, "__post_init__", lambda _: None)
    fact = NoisyVector(**VALID[NoisyVector] | {"sampling_rate": None, "sensitivity": -1.0})
    assert fact.sensitivity < 0


@pytest.mark.parametrize(
    "forged",
    [
        [], "noisy-sum", None, {}, {"kind": None}, {"kind": ["noisy-sum"]}, {"kind": "noise"},
        {"kind": "noisy-sum"},
        {"kind": "metric-release", **VALID[MetricRelease], "notion": "dp"},
        {"kind": "unprotected", **VALID[Unprotected], "objections": []},
        {"kind": "noisy-sum", **VALID[NoisySum], "noise_stds": "11"},
        {"kind": "noisy-sum", **VALID[NoisySum], "noise_stds": {"0": 1}},
        {"kind": "noisy-sum", **VALID[NoisySum], "noise_stds": []},
        {"kind": "noisy-sum", **VALID[NoisySum], "pool": "epoch 0"},
        {"kind": "noisy-sum", **VALID[NoisySum], "rank": -1},
        {"kind": "noisy-sum", **VALID[NoisySum], "workers": 0},
        {"kind": "noisy-sum", **VALID[NoisySum], "seeded": "no"},
    ],
)  # fmt: skip
def test_a_forged_fact_is_refused(forged: Any) -> None:
    with pytest.raises(SottovoceError):
        fact_from_json(forged)


@pytest.mark.parametrize("count", [0, -1, True, 1.0, "1", math.nan, 2**53 + 1, None])
def test_a_count_is_a_number_of_executions(count: Any) -> None:
    fact = BoundedRelease(unit=Unit.USER, mechanism="m", epsilon=0.1)
    with pytest.raises(InvalidInput, match="count"):
        Entry(fact, count)
    with pytest.raises(InvalidInput, match="count"):
        Ledger(unit=Unit.USER, relation=Relation.REPLACE_ONE).spend(fact, count)


def test_the_largest_count_is_exact() -> None:
    fact = BoundedRelease(unit=Unit.USER, mechanism="m", epsilon=1.0)
    said = account([Entry(fact, 2**53)], unit=Unit.USER, relation=Relation.REPLACE_ONE, delta=0.0)
    assert said.epsilon == 2**53


@pytest.mark.parametrize("name", ["epsilon", "delta"])
@pytest.mark.parametrize("value", ["1", True, math.nan, math.inf, -1, None])
def test_a_budget_without_bounds_is_none(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=name):
        Budget(**{"epsilon": 1.0, "delta": 1e-6, name: value})


@pytest.mark.parametrize("epsilon", [True, "nan", "-1", -1, "1e400", "three"])
def test_a_forged_guarantee_is_refused(epsilon: Any) -> None:
    said = account([], unit=Unit.USER, relation=Relation.REPLACE_ONE, delta=0.0).to_json()
    with pytest.raises(InvalidInput):
        Guarantee.from_json(said | {"epsilon": epsilon})


def test_a_fact_whose_squares_vanish_still_costs_something() -> None:
    """1e-200 squared is nothing: a ledger of such releases would be free of charge."""
    for fact in (
        BoundedRelease(unit=Unit.USER, mechanism="m", epsilon=1e-200),
        MetricRelease(unit=Unit.USER, mechanism="m", epsilon=1e-200),
    ):
        entries = [Entry(fact, 10)]
        said = account(entries, unit=Unit.USER, relation=Relation.REPLACE_ONE, delta=0.0)
        assert said.epsilon >= 9.99e-200


def shuffled(seed_hint: str | None) -> Ledger:
    ledger = Ledger(unit=Unit.EXAMPLE, relation=Relation.REPLACE_ONE, seed_hint=seed_hint)
    batch = NoisySum(unit=Unit.EXAMPLE, clip_norm=1, noise_stds=(2.0,), sampling=Sampling.SHUFFLE,
                     pool="epoch 0")  # fmt: skip
    ledger.spend(batch, 5)
    return ledger


def test_two_seeded_trainings_are_two_also_where_they_share_names_of_epochs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4.38 was printed, as for one of them; 6.57 is true."""
    both = [("spring", shuffled("1")), ("autumn", shuffled("1"))]
    one = both[0][1].guarantee(1e-5).epsilon
    assert compose(both).ledger.guarantee(1e-5).epsilon > 1.4 * one
    # The twin: pools that are told apart by the id of their ledger.
    monkeypatch.setattr(merging, "_with_pool_of", lambda fact, _: fact)
    assert compose(both).ledger.guarantee(1e-5).epsilon == one


def test_a_pipe_or_a_folder_is_no_ledger_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/null"), tmp_path / "none"):
        with pytest.raises(InvalidInput, match="ledger"):
            Ledger.read(path)
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(InvalidInput, match="ledger"):
            Ledger.open(path, unit=Unit.USER, relation=Relation.REPLACE_ONE)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: b"\xef\xbb\xbf" + content,
        lambda content: content.replace(b'"count": 1', b'"count": 1, "count": 1'),
        lambda content: content + content,
        lambda content: content.replace(b"\n", b"\n\n", 1),
    ],
    ids=["crlf", "byte order mark", "a key twice", "twice", "empty line"],
)
def test_a_file_that_somebody_rewrote_is_refused(tmp_path: Path, spoil: Any) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger.open(path, unit=Unit.USER, relation=Relation.REPLACE_ONE) as ledger:
        ledger.spend(BoundedRelease(unit=Unit.USER, mechanism="m", epsilon=0.1))
    Ledger.read(path)  # the twin: as it was written, it is read
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(LedgerDamaged):
        Ledger.read(path)
