"""`sottovoce audit RUN`: attacks on real runs, held against what the runs promise."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.conftest import RunCli
from tests.nlu.small import OPTIONS, command, small_parts, write_parts

from sottovoce.audit import AuditResult
from sottovoce.audit.canaries import read_canaries
from sottovoce.cli.audit import run as audit_run
from sottovoce.corpora import Utterance
from sottovoce.io.run import Run
from sottovoce.privacy.guarantee import rounded_down

torch.set_num_threads(1)
PARTS = small_parts(train=200)
MEMORISING = (
    *OPTIONS, "--hidden", 48, "--word-width", 48, "--vocabulary", "hashed-5000",
    "--learning-rate", 0.02, "--epochs", 25, "--batch-size", 60,
)  # fmt: skip
LOSS = ("--attack", "loss")
ONE_RUN = ("--attack", "one-run", "--guesses", 30)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, with two test utterances that a model of its train part cannot label."""
    place = tmp_path_factory.mktemp("audits")
    intent = PARTS.train[0].intent
    allowed = {slot[2:] for u in PARTS.train if u.intent == intent for slot in u.slots}
    others = {slot for u in PARTS.train for slot in u.slots if slot[:1] == "B"}
    forbidden = min(slot for slot in others if slot[2:] not in allowed)
    strange = (
        Utterance(tokens=("quite", "new"), slots=("O", "B-nothing"), intent=intent),
        Utterance(tokens=("not", "so"), slots=("O", forbidden), intent=intent),
    )
    write_parts(place / "calls", replace(PARTS, test=(*PARTS.test, *strange)))
    return place


@pytest.fixture(scope="module")
def private(place: Path) -> Path:
    dp = ("--method", "dp-sgd", "--epsilon", 1, "--canaries", 60)
    command("train", place / "calls", *OPTIONS, *dp, "-o", place / "private")
    return place / "private"


@pytest.fixture
def run(private: Path, tmp_path: Path) -> Path:
    """A copy of the private run, for a test to write to."""
    return Path(shutil.copytree(private, tmp_path / "run"))


def test_the_loss_attack_and_what_was_left_out(run_cli: RunCli, run: Path) -> None:
    result = run_cli("audit", run, *LOSS, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found == json.loads((run / "private/audit.json").read_text())
    assert [attack["attack"] for attack in found["attacks"]] == ["loss threshold"]
    assert AuditResult.read(run).guarantee is not None
    (note,) = (note for note in found["notes"] if "labels" in note)
    seen: dict[str, set[str]] = {}
    for utterance in PARTS.train:
        seen.setdefault(utterance.intent, {"O"}).update(
            slot[2:] or slot for slot in utterance.slots
        )
    unknown = [
        u for u in PARTS.test
        if u.intent not in seen or any((s[2:] or s) not in seen[u.intent] for s in u.slots)
    ]  # fmt: skip
    assert int(note.split()[0]) == 2 + len(unknown)  # the two strange ones as well
    assert "AUC" not in (run / "README.md").read_text()
    assert not (run / "audit.json").exists()
    run_cli("audit", run, *LOSS, "--publish")
    assert json.loads((run / "audit.json").read_text())["attacks"] == found["attacks"]
    card = (run / "README.md").read_text()
    assert "AUC" in card
    assert "no guarantee covers them" in card
    text = run_cli("audit", run, *LOSS).stdout
    assert "loss threshold" in text
    assert "Guarantee: " in text


def test_a_guarantee_of_1_is_not_contradicted(run_cli: RunCli, run: Path) -> None:
    # At this confidence a true guarantee is contradicted once in a million audits.
    sure = (*ONE_RUN, "--confidence", 0.999999)
    found = json.loads(run_cli("audit", run, *sure, "--json").stdout)
    (bound,) = found["bounds"]
    assert bound["epsilon_lower"] <= found["guarantee"]["epsilon"] <= 1
    assert found["defects"] == found["not_compared"] == []


def test_a_model_that_memorises_is_caught(run_cli: RunCli, place: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command("train", place / "calls", *MEMORISING, "--canaries", 60, "-o", run)
    found = json.loads(run_cli("audit", run, *ONE_RUN, "--json").stdout)
    (bound,) = found["bounds"]
    assert bound["epsilon_lower"] > 0.5, bound
    run_cli("audit", run, *ONE_RUN, "--publish")
    shown = " ".join((run / "README.md").read_text().split())
    assert f"At least epsilon = {rounded_down(bound['epsilon_lower'])}" in shown
    # A guarantee that the model does not satisfy is contradicted.
    kept = json.loads((run / "run.json").read_text())
    kept["guarantee"] |= {"epsilon": 0.1, "verdict": "holds", "reasons": []}
    (run / "run.json").write_text(json.dumps(kept))
    found = json.loads(run_cli("audit", run, *ONE_RUN, "--json").stdout)
    assert "contradicted" in found["defects"][0]


def test_as_printed_is_audited_by_pairs(run_cli: RunCli, place: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    printed = ("--method", "edp-sgd", "--as-printed", "--noise-multiplier", 0.01, "--workers", 2)
    command("train", place / "calls", *OPTIONS, *printed, "--canaries", 20, "-o", run)
    sizes = Run(run).private_part()["data"]
    assert sizes["train"] == len(PARTS.train) + 10  # one of each pair, whatever the coins
    assert len(read_canaries(run / "private/canaries.jsonl").utterances) == 20
    found = json.loads(run_cli("audit", run, "--attack", "one-run", "--json").stdout)
    (bound,) = found["bounds"]
    assert bound["relation"] == "replace-one"
    assert "about 10 canaries" in bound["evidence"]


def test_references_are_kept(run_cli: RunCli, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("--attack", "rmia", "--attack", "lira", "--references", 2, "--max-members", 40, "--json")
    calls: list[int] = []
    trained = audit_run._trained

    def counted(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return trained(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(audit_run, "_trained", counted)
    assert run_cli("audit", run, *few).exit_code == 130
    assert not (run / "private/audit.json").exists()
    result = run_cli("audit", run, *few)
    assert result.exit_code == 0, result.stderr
    assert len(calls) == 3  # the first was kept, the second is trained again
    found = json.loads(result.stdout)
    assert {"RMIA", "loss threshold"} < {attack["attack"] for attack in found["attacks"]}
    assert run_cli("audit", run, *few).exit_code == 0
    assert len(calls) == 3
    # Other records have their own reference models, next to the first.
    assert run_cli("audit", run, *few, "--max-members", 30).exit_code == 0
    assert len(calls) == 5


def test_a_shadow_of_another_domain(run_cli: RunCli, run: Path, tmp_path: Path) -> None:
    assert "--shadow-data" in run_cli("audit", run, "--attack", "shadow").stderr
    health = write_parts(tmp_path / "health", small_parts("health"))
    result = run_cli("audit", run, "--attack", "shadow", "--shadow-data", health, "--json")
    assert result.exit_code == 0, result.stderr
    names = [attack["attack"] for attack in json.loads(result.stdout)["attacks"]]
    assert any("shadow" in name for name in names)


def test_other_data_can_be_named(run_cli: RunCli, place: Path, run: Path) -> None:
    kept = json.loads((run / "private/run.json").read_text())
    kept["source"]["data"] = "gone"
    (run / "private/run.json").write_text(json.dumps(kept))
    result = run_cli("audit", run, *LOSS)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "with --data, because gone is not there" in result.stderr
    assert run_cli("audit", run, *LOSS, "--data", place / "calls").exit_code == 0
    alone = run_cli("audit", run, *LOSS, "--data", place / "calls" / "train.jsonl")
    assert "has not seen" in alone.stderr


@pytest.mark.parametrize("content", [None, "[]", "{}", "{", '{"verb": "deid"}'])
def test_what_is_no_run(run_cli: RunCli, tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    folder = tmp_path / "nothing" if content is None else tmp_path
    result = run_cli("audit", folder)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: Expected a ")
    assert result.stderr.count("\n") == 1


def test_an_attack_without_what_it_needs(run_cli: RunCli, place: Path, tmp_path: Path) -> None:
    command("train", place / "calls", *OPTIONS, "--epochs", 1, "-o", tmp_path / "run")
    result = run_cli("audit", tmp_path / "run", "--attack", "one-run")
    assert result.exit_code == 2
    assert "no canaries were in the training data" in result.stderr
