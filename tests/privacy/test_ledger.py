"""The ledger: budget checks before release, compressed runs, and crash-safe files."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sottovoce.errors import BudgetExceeded, CannotAccount, InvalidInput, LedgerDamaged
from sottovoce.privacy.accounting import Entry
from sottovoce.privacy.facts import BoundedRelease, NoisySum, ScaleSource
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.ledger import Budget, Ledger

STEP = NoisySum(unit=Unit.EXAMPLE, clip_norm=1.0, noise_stds=(1.0,), sampling_rate=0.007)
QUIETER = replace(STEP, noise_stds=(2.0,))


def new_ledger(budget: Budget | None = None) -> Ledger:
    return Ledger(unit=Unit.EXAMPLE, relation=Relation.ADD_OR_REMOVE, budget=budget)


def open_ledger(path: Path, budget: Budget | None = None) -> Ledger:
    return Ledger.open(
        path, unit=Unit.EXAMPLE, relation=Relation.ADD_OR_REMOVE, budget=budget, durable=False
    )


def test_1400_equal_steps_are_one_entry() -> None:
    ledger = new_ledger()
    for _ in range(1400):
        ledger.spend(STEP)
    assert ledger.entries == (Entry(STEP, 1400),)
    assert ledger.guarantee(5e-4).epsilon == pytest.approx(1.01065, rel=2e-4)


def test_entries_keep_the_order_of_what_happened() -> None:
    ledger = new_ledger()
    for fact, count in ((STEP, 2), (QUIETER, 1), (STEP, 3)):
        ledger.spend(fact, count)
    assert ledger.entries == (Entry(STEP, 2), Entry(QUIETER, 1), Entry(STEP, 3))


def test_the_budget_is_refused_before_it_is_overspent_at_the_very_step() -> None:
    ledger = new_ledger(Budget(epsilon=1.0, delta=5e-4))

    def spend_on() -> None:
        for _ in range(5000):
            ledger.spend(STEP)

    with pytest.raises(BudgetExceeded, match=r"above the budget of 1 at delta 0\.0005"):
        spend_on()
    spent = sum(entry.count for entry in ledger.entries)
    assert ledger.guarantee().epsilon <= 1.0
    one_more = new_ledger()
    one_more.spend(STEP, spent + 1)
    assert one_more.guarantee(5e-4).epsilon > 1.0


def test_a_refused_spending_leaves_no_trace_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with open_ledger(path, Budget(epsilon=0.5, delta=1e-5)) as ledger:
        ledger.spend(QUIETER)
        before = path.read_bytes()
        with pytest.raises(BudgetExceeded):
            ledger.spend(replace(STEP, noise_stds=(0.01,)))
        assert path.read_bytes() == before
        ledger.spend(QUIETER)  # what fits may still be spent
    assert Ledger.read(path).entries == (Entry(QUIETER, 2),)


def test_what_has_no_guarantee_does_not_fit_any_budget() -> None:
    ledger = new_ledger(Budget(epsilon=1e6, delta=1e-5))
    with pytest.raises(BudgetExceeded, match="would give no guarantee"):
        ledger.spend(replace(STEP, scale_source=ScaleSource.FIRST_BATCH))


def test_a_voided_ledger_gives_no_guarantee_whatever_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with open_ledger(path, Budget(epsilon=1.0, delta=1e-5)) as ledger:
        ledger.spend(QUIETER)
        ledger.void("one example moved the sum by 1.4 C")
        with pytest.raises(BudgetExceeded, match="moved the sum"):
            ledger.spend(QUIETER)
        assert not Ledger.read(path).guarantee().holds
    assert Ledger.read(path).guarantee().reasons == ("one example moved the sum by 1.4 C",)


def test_another_unit_is_refused() -> None:
    with pytest.raises(CannotAccount, match="keep one ledger for each privacy unit"):
        new_ledger().spend(BoundedRelease(unit=Unit.USER, mechanism="m", epsilon=1.0))


def test_assumptions_and_gaps_reach_the_guarantee_and_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with open_ledger(path) as ledger:
        ledger.assume("the sample is secret")
        ledger.assume("the sample is secret")
        ledger.leave_uncovered("the vocabulary")
        ledger.spend(STEP)
    read = Ledger.read(path)
    assert read.assumptions == ("the sample is secret",)
    assert "the sample is secret" in read.guarantee(1e-5).assumptions
    assert read.guarantee(1e-5).not_covered == ("the vocabulary",)


def test_json_both_ways() -> None:
    ledger = new_ledger(Budget(epsilon=3.0, delta=1e-5))
    ledger.spend(STEP, 7)
    ledger.assume("something")
    again = Ledger.from_json(json.loads(json.dumps(ledger.to_json())))
    assert again.entries == ledger.entries
    assert again.budget == ledger.budget
    assert again.assumptions == ledger.assumptions


def test_a_file_is_continued_and_never_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with open_ledger(path) as ledger:
        for _ in range(1000):
            ledger.spend(STEP)
    before = path.read_bytes()
    with open_ledger(path) as ledger:
        assert ledger.entries == (Entry(STEP, 1000),)
        assert path.read_bytes() == before
        ledger.spend(STEP)
        ledger.spend(QUIETER)
    assert Ledger.read(path).entries == (Entry(STEP, 1001), Entry(QUIETER, 1))
    assert path.read_bytes().startswith(before)


def test_two_writers_are_refused(tmp_path: Path) -> None:
    with (
        open_ledger(tmp_path / "ledger.jsonl"),
        pytest.raises(InvalidInput, match="another process"),
    ):
        open_ledger(tmp_path / "ledger.jsonl")


def test_a_ledger_is_not_continued_as_another_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    open_ledger(path, Budget(epsilon=1.0, delta=1e-5)).close()
    with pytest.raises(InvalidInput, match="it is the ledger of one example"):
        Ledger.open(path, unit=Unit.USER, relation=Relation.ADD_OR_REMOVE)
    with pytest.raises(InvalidInput, match="Expected the budget of"):
        open_ledger(path, Budget(epsilon=9.0, delta=1e-5))
    open_ledger(path).close()  # no budget given: the one in the file applies
    assert Ledger.read(path).budget == Budget(epsilon=1.0, delta=1e-5)


def spent_file(path: Path, steps: int = 5) -> bytes:
    with open_ledger(path) as ledger:
        for _ in range(steps):
            ledger.spend(STEP)
    return path.read_bytes()


def spent_steps(path: Path) -> int:
    return sum(entry.count for entry in Ledger.read(path).entries)


def test_a_crash_anywhere_leaves_at_least_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    whole = spent_file(path)
    header = whole.index(b"\n") + 1
    ends = [place for place in range(header, len(whole)) if whole[place : place + 1] == b"\n"]
    cuts = {*range(header, len(whole), 17), *(end + near for end in ends for near in (-1, 0, 1))}
    for cut in sorted(cuts - {len(whole)}):
        path.write_bytes(whole[:cut])
        complete_lines = whole[:cut].count(b"\n") - 1
        # A complete line without its newline may have been acted on, so it counts.
        counted = min(complete_lines + (whole[cut : cut + 1] == b"\n"), 5)
        assert spent_steps(path) == counted
        assert path.read_bytes() == whole[:cut]
        with open_ledger(path) as ledger:
            ledger.spend(STEP)
        assert spent_steps(path) == counted + 1


@pytest.mark.parametrize("damage", ["flip", "drop", "swap"])
def test_damage_in_the_middle_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "ledger.jsonl"
    lines = spent_file(path).splitlines(keepends=True)
    if damage == "flip":
        lines[2] = lines[2].replace(b"again", b"agaim")
    elif damage == "drop":
        del lines[1]
    else:
        lines[1], lines[2] = lines[2], lines[1]
    path.write_bytes(b"".join(lines))
    with pytest.raises(LedgerDamaged, match="Restore the file"):
        open_ledger(path)
    with pytest.raises(LedgerDamaged):
        Ledger.read(path)


def test_something_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerDamaged, match="Expected a ledger"):
        Ledger.from_json({"records": [{"shopping": "list"}]})
    with pytest.raises(InvalidInput, match='list of "records"'):
        Ledger.from_json({})


def test_a_full_disk_refuses_the_step_and_keeps_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = open_ledger(path)
    ledger.spend(STEP)
    real_write = os.write

    def half_then_full(file: int, content: bytes) -> int:
        if len(content) < 10:
            raise OSError(28, "No space left on device")
        return real_write(file, content[: len(content) // 2])

    monkeypatch.setattr(os, "write", half_then_full)
    with pytest.raises(OSError, match="No space left"):
        ledger.spend(STEP)
    monkeypatch.undo()
    ledger.spend(QUIETER)
    ledger.close()
    assert Ledger.read(path).entries == (Entry(STEP, 1), Entry(QUIETER, 1))


SPENDER = """
import sys
from sottovoce.privacy.facts import NoisySum
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.ledger import Ledger

step = NoisySum(unit=Unit.EXAMPLE, clip_norm=1.0, noise_stds=(1.0,), sampling_rate=0.007)
ledger = Ledger.open(sys.argv[1], unit=Unit.EXAMPLE, relation=Relation.ADD_OR_REMOVE)
released = open(sys.argv[2], "ab", buffering=0)
while True:
    ledger.spend(step)
    released.write(b"x")
"""


def test_kill_9_leaves_at_least_what_was_released(tmp_path: Path) -> None:
    path, released = tmp_path / "ledger.jsonl", tmp_path / "released"
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", SPENDER, str(path), str(released)])
        start = released.stat().st_size if released.exists() else 0
        while not released.exists() or released.stat().st_size < start + 20:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        counted = sum(entry.count for entry in Ledger.read(path).entries)
        assert released.stat().st_size <= counted <= released.stat().st_size + 3
