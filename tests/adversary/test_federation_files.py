"""Files of a federation: one run per folder, every run charged, nothing exact in public."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import RunCli

from sottovoce.cli import federate as verb
from sottovoce.io.allowed import KEYS, WHOLE
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.formats import write_nbest
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.privacy.ledger import Ledger

WORDS = Vocabulary.from_text(["call mum dad", "hang up now", "call"], size=20)


def heard(utterances: int = 30, clients: int = 5) -> list[NBest]:
    return [
        NBest(f"u{i}", (Hypothesis("call mum"), Hypothesis("call dad")), client=f"c{i % clients}")
        for i in range(utterances)
    ]


@pytest.fixture
def command(tmp_path: Path) -> list[object]:
    write_nbest(tmp_path / "heard.jsonl", heard())
    WORDS.save(tmp_path / "vocabulary.json")
    start = ["federate", tmp_path / "heard.jsonl", "--vocabulary", tmp_path, "--rounds", "2"]
    return [*start, "--runner", "in-process", "--epsilon", "1"]


def epsilon(folder: Path) -> float:
    return float(json.loads((folder / "run.json").read_text())["guarantee"]["epsilon"])


def test_a_second_run_into_the_same_folder_is_refused_and_the_first_is_left_as_it_was(
    run_cli: RunCli, command: list[object], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run_cli(*command, "-o", out).exit_code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    result = run_cli(*command, "-o", out)
    assert result.exit_code == 2
    assert "Expected a folder without a run" in result.stderr
    assert "--ledger" in result.stderr
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_without_the_refusal_the_first_run_would_be_lost(
    run_cli: RunCli, command: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert run_cli(*command, "-o", out).exit_code == 0
    first = (out / "marginals.json").read_bytes()
    monkeypatch.setattr(verb, "check_unused", lambda _: None)
    monkeypatch.setattr("sottovoce.personalize.federated.publishing.check_unused", lambda _: None)
    assert run_cli(*command, "-o", out).exit_code == 0
    assert (out / "marginals.json").read_bytes() != first


@pytest.mark.parametrize(
    "deleted", [["run.json"], ["marginals.json"], ["run.json", "marginals.json"]]
)
def test_deleting_what_was_published_does_not_make_a_folder_new(
    run_cli: RunCli, command: list[object], tmp_path: Path, deleted: list[str]
) -> None:
    out = tmp_path / "out"
    assert run_cli(*command, "-o", out).exit_code == 0
    for name in deleted:
        (out / name).unlink()
    assert run_cli(*command, "-o", out).exit_code == 2


@pytest.mark.parametrize(
    "unit", [[], ["--unit", "user", "--mass-cap", "10"]], ids=["utterance", "user"]
)
def test_two_runs_over_the_same_people_add_up_in_one_ledger(
    run_cli: RunCli, command: list[object], tmp_path: Path, unit: list[str]
) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    assert run_cli(*command, *unit, "-o", one).exit_code == 0
    for folder in (two, three):
        result = run_cli(*command, *unit, "-o", folder, "--ledger", one / "ledger.jsonl")
        assert result.exit_code == 0, result.stderr
    told = [epsilon(folder) for folder in (one, two, three)]
    assert told == pytest.approx([1.0, 2.0, 3.0], rel=1e-3)
    # The published marginals agree with the ledger.
    kept = Marginals.load(three / "marginals.json").guarantee()
    assert kept.epsilon == pytest.approx(3.0, rel=1e-3)
    assert Ledger.read(one / "ledger.jsonl").guarantee(0.0).epsilon == pytest.approx(3, rel=1e-3)


def test_pools_without_the_name_of_their_run_would_be_paid_once(
    run_cli: RunCli, command: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sottovoce.personalize.federated.plan import ReleasePlan
    from sottovoce.privacy.ledgers.history import History

    fact = ReleasePlan.fact
    monkeypatch.setattr(
        ReleasePlan, "fact", lambda plan, number=1, *, seeded=False, run="": fact(
            plan, number, seeded=seeded, run="always the same"
        ),
    )  # fmt: skip
    monkeypatch.setattr(History, "scoped", lambda _history, spent, _opening=None: spent)
    assert run_cli(*command, "-o", tmp_path / "one").exit_code == 0
    again = ["-o", tmp_path / "two", "--ledger", tmp_path / "one/ledger.jsonl"]
    assert run_cli(*command, *again).exit_code == 0
    assert epsilon(tmp_path / "two") == pytest.approx(1.0, rel=1e-3)


def crash(
    run_cli: RunCli, command: list[object], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is cut off after its last round, before anything is published."""
    from sottovoce.personalize.federated.publishing import Publication

    with monkeypatch.context() as patch:
        patch.setattr(Publication, "write", lambda *_, **__: (_ for _ in ()).throw(OSError("full")))
        assert run_cli(*command, "-o", out).exit_code != 0
    assert not (out / "marginals.json").exists()


def test_a_run_that_crashed_is_resumed_and_paid_once(
    run_cli: RunCli, command: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    crash(run_cli, command, out, monkeypatch)
    other = run_cli(*command, "-o", out, "--max-words", "7")
    assert other.exit_code == 2
    assert "settings of the interrupted run" in other.stderr
    assert run_cli(*command, "-o", out).exit_code == 0
    assert epsilon(out) == pytest.approx(1.0, rel=1e-3)
    assert run_cli(*command, "-o", out).exit_code == 2


def test_a_run_that_crashed_is_paid_by_another_one(
    run_cli: RunCli, command: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    crash(run_cli, command, out, monkeypatch)
    result = run_cli(*command, "-o", tmp_path / "new", "--ledger", out / "ledger.jsonl")
    assert result.exit_code == 0, result.stderr
    assert epsilon(tmp_path / "new") == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_round_that_was_cut_off_is_run_again_and_paid_once(
    run_cli: RunCli,
    command: list[object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    from sottovoce.personalize.federated.checkpoint import Checkpoint

    out, add, rounds = tmp_path / "out", Checkpoint.add, []

    def dies(self: Checkpoint, *args: Any) -> None:
        if moment == "after":
            add(self, *args)
        raise KeyboardInterrupt

    def noted(self: Checkpoint, report: Any, server: Any) -> None:
        rounds.append(report.number)
        add(self, report, server)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "add", dies)
        assert run_cli(*command, "-o", out).exit_code != 0
    monkeypatch.setattr(Checkpoint, "add", noted)
    assert run_cli(*command, "-o", out).exit_code == 0
    assert rounds == ([1, 2] if moment == "before" else [2])
    assert epsilon(out) == pytest.approx(1.0, rel=1e-3)


def test_a_resumed_run_that_begins_a_new_one_would_be_paid_twice(
    run_cli: RunCli, command: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The twin: without `resume_run` the ledger knows no earlier run to go on with.
    out = tmp_path / "out"
    crash(run_cli, command, out, monkeypatch)
    data = json.loads((out / "private/checkpoint.json").read_text())
    data["reports"] = data["reports"][:1]
    (out / "private/checkpoint.json").write_text(json.dumps(data))
    monkeypatch.setattr(Ledger, "resume_run", lambda self, _run: None)
    assert run_cli(*command, "-o", out).exit_code == 0
    assert epsilon(out) == pytest.approx(2.0, rel=1e-3)


def public_files(folder: Path) -> dict[str, str]:
    """All public files, without the released numbers and random values."""
    texts = {}
    for path in sorted(folder.iterdir()):
        if path.is_dir() or path.name == "ledger.jsonl":
            continue
        data = json.loads(path.read_text())
        for of in (data, data.get("about", {})):
            ledger = of.pop("ledger", None)
            if ledger is not None:
                of["spent"] = [
                    (entry.fact.to_json() | {"pool": None}, entry.count)
                    for entry in Ledger.from_json(ledger).entries
                ]
            for protected in ("q_bar", "mass", "of"):
                of.pop(protected, None)
        texts[path.name] = json.dumps(data, sort_keys=True)
    return texts


@pytest.mark.parametrize(
    ("unit", "larger"),
    [
        ([], heard(31)),
        (
            ["--unit", "user", "--mass-cap", "10"],
            [*heard(), *(NBest(f"z{i}", (Hypothesis("hang up"),), client="zoe") for i in range(9))],
        ),
    ],
    ids=["one utterance more", "one client more"],
)
def test_neighbouring_inputs_leave_equal_public_files(
    run_cli: RunCli,
    command: list[object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unit: list[str],
    larger: list[NBest],
) -> None:
    def both(name: str) -> tuple[dict[str, str], dict[str, str]]:
        told = []
        for which, lists in (("a", heard()), ("b", larger)):
            write_nbest(tmp_path / "heard.jsonl", lists)
            out = tmp_path / f"{name}-{which}"
            result = run_cli(*command, *unit, "--seed", "7", "-o", out)
            assert result.exit_code == 0, result.stderr
            told.append(public_files(out))
        return told[0], told[1]

    one, other = both("shared")
    assert one == other
    # The twin: exact numbers in public files would distinguish the two.
    monkeypatch.setattr("sottovoce.io.run.KEYS", KEYS | {"metrics": WHOLE})
    one, other = both("leaking")
    assert one != other


def test_marginals_without_their_ledger_come_with_no_guarantee(
    run_cli: RunCli, command: list[object], tmp_path: Path
) -> None:
    assert run_cli(*command, "-o", tmp_path / "out").exit_code == 0
    path = tmp_path / "out/marginals.json"
    whole = json.loads(path.read_text())
    assert Marginals.load(path).guarantee().epsilon == pytest.approx(1, rel=1e-3)
    # A hand-written statement is not a ledger.
    stated = {**whole, "about": {"guarantee": whole["about"]["guarantee"], "delta": 0.0}}
    # Other numbers with the ledger of these.
    exchanged = {**whole, "q_bar": np.roll(whole["q_bar"], 1).tolist()}
    # A ledger with an entry removed.
    shorter = json.loads(json.dumps(whole))
    shorter["about"]["ledger"]["records"].pop()
    for broken in (stated, exchanged, shorter):
        path.write_text(json.dumps(broken))
        told = Marginals.load(path).guarantee()
        assert not told.holds
        assert told.epsilon == float("inf")
