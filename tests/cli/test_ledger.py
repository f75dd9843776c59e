"""`sottovoce ledger`: what is said of whole, cut, damaged and copied ledgers, and exit codes."""

import json
from pathlib import Path

import pytest
from tests.conftest import RunCli

from sottovoce.privacy.facts import BoundedRelease, NoisySum
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.ledger import Budget, Ledger

HALF = BoundedRelease(unit=Unit.USER, mechanism="histogram", epsilon=0.5)


def opened(path: Path, unit: Unit = Unit.USER, budget: Budget | None = None) -> Ledger:
    return Ledger.open(path, unit=unit, relation=Relation.ADD_OR_REMOVE, budget=budget)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    with opened(folder / "ledger.jsonl") as ledger:
        ledger.assume("nobody else releases anything")
        for _ in range(4):
            ledger.spend(HALF)
        (folder / "run.json").write_text(json.dumps({"ledger": ledger.to_json()}))
    return folder


def test_show_tells_entries_and_guarantee_in_words(run_cli: RunCli, run_folder: Path) -> None:
    shown = run_cli("ledger", "show", str(run_folder / "ledger.jsonl"), "--delta", "0")
    assert shown.exit_code == 0, shown.stderr
    assert "4 x histogram: epsilon 0.5" in shown.stdout
    assert "epsilon = 2" in shown.stdout
    assert "nobody else releases anything" in shown.stdout
    assert "closed" in shown.stdout
    without = run_cli("ledger", "show", str(run_folder / "ledger.jsonl"))
    assert "add --delta" in without.stdout


def test_show_takes_delta_from_the_budget(run_cli: RunCli, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    opened(path, budget=Budget(epsilon=1.0, delta=1e-6)).close()
    (told,) = json.loads(run_cli("ledger", "show", str(path), "--json").stdout)
    assert told["guarantee"]["delta"] == 1e-6
    assert told["entries"] == []


def test_a_run_folder_is_verified_with_its_copies(run_cli: RunCli, run_folder: Path) -> None:
    done = run_cli("ledger", "verify", str(run_folder))
    assert done.exit_code == 0, done.stderr
    assert "hashes match; closed" in done.stdout
    assert "ledger.jsonl includes" in done.stdout
    told = json.loads(run_cli("ledger", "verify", str(run_folder), "--json").stdout)
    assert [each["sealed"] for each in told["ledgers"]] == [True, False]
    assert told["problems"] == []


def test_a_cut_file_is_said_to_be_open_and_its_copy_tells_more(
    run_cli: RunCli, run_folder: Path
) -> None:
    path = run_folder / "ledger.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    alone = run_cli("ledger", "verify", str(path))
    assert alone.exit_code == 0
    assert "there may have been more" in alone.stdout
    done = run_cli("ledger", "verify", str(run_folder))
    assert done.exit_code == 1
    assert "truncated or rolled back" in done.stderr


def test_a_damaged_file_exits_with_1_and_a_missing_one_with_2(
    run_cli: RunCli, run_folder: Path, tmp_path: Path
) -> None:
    path = run_folder / "ledger.jsonl"
    path.write_bytes(path.read_bytes().replace(b"0.5", b"0.4"))
    done = run_cli("ledger", "verify", str(path))
    assert done.exit_code == 1
    assert "altered" in done.stderr
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.json").write_text("[]")
    for missing in ("nowhere.jsonl", "empty", "notes.json"):
        done = run_cli("ledger", "verify", str(tmp_path / missing))
        assert done.exit_code == 2
        assert done.stderr.startswith("Error: Expected")


def test_an_edited_copy_is_damage(run_cli: RunCli, run_folder: Path) -> None:
    path = run_folder / "run.json"
    path.write_text(path.read_text().replace('"times": 3', '"times": 2'))
    done = run_cli("ledger", "verify", str(run_folder))
    assert done.exit_code == 1
    assert "match their hash" in done.stderr


def test_merge_adds_up_and_counts_copies_once(
    run_cli: RunCli, run_folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "autumn.jsonl"
    with opened(other) as ledger:
        ledger.spend(HALF)
    out = tmp_path / "all.jsonl"
    files = [str(run_folder / "ledger.jsonl"), str(run_folder / "run.json"), str(other)]
    done = run_cli("ledger", "merge", *files, "--delta", "0", "-o", str(out))
    assert done.exit_code == 0, done.stderr
    assert "counted once" in done.stdout
    assert "epsilon = 2.5" in done.stdout
    assert Ledger.read(out).guarantee(0.0).epsilon == 2.5
    again = run_cli("ledger", "merge", *files, "-o", str(out))
    assert again.exit_code == 2
    assert "exists" in again.stderr
    told = json.loads(run_cli("ledger", "merge", *files, "--delta", "0", "--json").stdout)
    assert told["guarantee"]["epsilon"] == 2.5


def test_merge_refuses_other_units_and_folders(
    run_cli: RunCli, run_folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "tokens.jsonl"
    opened(other, Unit.TOKEN).close()
    for files in ([str(run_folder / "ledger.jsonl"), str(other)], [str(run_folder)]):
        done = run_cli("ledger", "merge", *files)
        assert done.exit_code == 2
        assert done.stderr.startswith("Error: Expected")


def test_workers_of_one_training_are_merged_as_such(run_cli: RunCli, tmp_path: Path) -> None:
    paths = []
    for rank in range(2):
        path = tmp_path / f"ledger.rank{rank}.jsonl"
        with opened(path) as ledger:
            ledger.new_run("one training")
            ledger.spend(
                NoisySum(
                    unit=Unit.USER, clip_norm=1.0, noise_stds=(1.0,), sampling_rate=0.1,
                    workers=2, rank=rank,
                )
            )  # fmt: skip
        paths.append(str(path))
    done = run_cli("ledger", "merge", *paths, "--delta", "1e-5")
    assert done.exit_code == 0, done.stderr
    assert "shares of the workers of one training" in done.stdout
    assert "noise multiplier 1.41" in done.stdout
