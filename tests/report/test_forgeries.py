"""Everything that a colleague may forge in a run: each is named, and each changes the decision."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.report.runs import audit_of, complete_run
from tests.report.test_decision import judged, released, user_run

from sottovoce.audit.result import AuditResult
from sottovoce.deid.files.manifest import with_hash
from sottovoce.errors import InvalidInput
from sottovoce.privacy.ledger import Ledger
from sottovoce.report import collect, derivation, evidence
from sottovoce.report.decision import Decision
from sottovoce.report.evidence import Kind
from sottovoce.report.released import attacks

Forge = Callable[[Path], None]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    content = user_run(30.0)
    ledger = Ledger.from_json(content["ledger"])
    ledger.assume("sums are divided by configured sizes")
    ledger.leave_uncovered("the names of intents")
    ledger.close()
    content["ledger"], content["guarantee"] = ledger.to_json(), ledger.guarantee(1e-6).to_json()
    return complete_run(tmp_path / "run", content, audit_of(content, leak=0.0, correct=50))


def edit(folder: Path, change: Callable[[Any], None]) -> None:
    path = folder / "run.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def epsilon(folder: Path) -> None:
    edit(folder, lambda run: run["guarantee"].update(epsilon=0.01))


def larger_epsilon(folder: Path) -> None:
    edit(folder, lambda run: run["guarantee"].update(epsilon=0.9))


def delta(folder: Path) -> None:
    edit(folder, lambda run: run["guarantee"].update(delta=1e-9))


def count(folder: Path) -> None:
    def change(run: Any) -> None:
        next(each for each in run["ledger"]["records"] if "spend" in each)["count"] = 1

    edit(folder, change)


def count_with_a_new_chain(folder: Path) -> None:
    """The forger writes a shorter ledger with correct hashes, and the guarantee that it gives."""

    def change(run: Any) -> None:
        old = Ledger.from_json(run["ledger"])
        new = Ledger(unit=old.unit, relation=old.relation)
        new.spend(old.entries[0].fact, 1)
        for each in old.assumptions:
            new.assume(each)
        for each in old.not_covered:
            new.leave_uncovered(each)
        run["ledger"], run["guarantee"] = new.to_json(), new.guarantee(1e-6).to_json()

    edit(folder, change)


def no_assumptions(folder: Path) -> None:
    edit(folder, lambda run: run["guarantee"].update(assumptions=[]))


def nothing_uncovered(folder: Path) -> None:
    edit(folder, lambda run: run["guarantee"].update(not_covered=[]))


def no_ledger(folder: Path) -> None:
    edit(folder, lambda run: run.pop("ledger"))


def no_ledger_file(folder: Path) -> None:
    (folder / "ledger.jsonl").unlink()


def truncated(folder: Path) -> None:
    path = folder / "ledger.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-3]))


def unsealed(folder: Path) -> None:
    path = folder / "ledger.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def altered_ledger(folder: Path) -> None:
    path = folder / "ledger.jsonl"
    path.write_text(path.read_text().replace('"noise_stds": [30.0]', '"noise_stds": [90.0]'))


def swapped_model(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"weights of a model without noise")


def swapped_model_and_config(folder: Path) -> None:
    swapped_model(folder)
    digest = evidence.sha256(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"weights": {"sha256": digest}}))


def stale_audit(folder: Path) -> None:
    replace(AuditResult.read(folder), model="0" * 64).write(folder)


def audit_of_another_run(folder: Path) -> None:
    other = user_run(50.0)
    kept = AuditResult.read(folder)
    replace(audit_of(other, leak=0.0, correct=50), model=kept.model).write(folder)


FORGERIES: list[tuple[Forge, Kind]] = [
    (epsilon, Kind.EPSILON),
    (larger_epsilon, Kind.EPSILON),
    (delta, Kind.EPSILON),
    (count, Kind.LEDGER),
    (count_with_a_new_chain, Kind.LEDGER),
    (no_assumptions, Kind.ASSUMPTIONS),
    (nothing_uncovered, Kind.GAPS),
    (no_ledger, Kind.NO_LEDGER),
    (no_ledger_file, Kind.NO_LEDGER),
    (truncated, Kind.TRUNCATED),
    (unsealed, Kind.TRUNCATED),
    (altered_ledger, Kind.LEDGER),
    (swapped_model, Kind.MODEL),
    (swapped_model_and_config, Kind.MODEL),
    (stale_audit, Kind.AUDIT),
    (audit_of_another_run, Kind.AUDIT),
]


def test_the_honest_run_is_released(run: Path) -> None:
    assert judged([run], "strict").decision is Decision.RELEASE


@pytest.mark.parametrize(("forge", "kind"), FORGERIES)
def test_each_forgery_is_named_and_stops_the_release(run: Path, forge: Forge, kind: Kind) -> None:
    forge(run)
    (stage,) = collect([run])
    assert kind in {doubt.kind for doubt in stage.doubts}
    found = judged([run], "strict")
    assert found.decision is Decision.STOP
    assert any(kind in finding.sentence.lower() for finding in found.reasons)


@pytest.mark.parametrize(
    "forge", [forge for forge, kind in FORGERIES if kind in (Kind.MODEL, Kind.ASSUMPTIONS)]
)
def test_without_the_checks_the_forged_run_would_pass(
    run: Path, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    forge(run)
    monkeypatch.setattr("sottovoce.report.stage.doubts_of", lambda *_: ())
    monkeypatch.setattr(derivation, "_differences", lambda *_: [])
    assert judged([run], "strict").decision is Decision.RELEASE


def test_a_run_without_its_model_or_with_an_audit_of_nothing_asks_a_person(run: Path) -> None:
    replace(AuditResult.read(run), model=None).write(run)
    assert judged([run], "strict").decision is Decision.ASK
    for name in ("model.safetensors", "config.json"):
        (run / name).unlink()
    found = judged([run], "strict")
    assert found.decision is Decision.ASK
    assert any("nothing ties" in finding.sentence for finding in found.findings)


def attack_on(output: Path) -> Path:
    content = {
        "verb": "deid attack",
        "released": {"name": output.name, "sha256": evidence.sha256(output)},
        "types": {
            "PER": {
                "values": 9, "epsilon": 0.0, "allowed": 0.2, "exceeds_epsilon": False,
                "attacks": [{"attack": "prior to posterior", "success": 0.1, "prior": 0.1,
                             "interval": [0.0, 0.4], "trials": 9}],
            }
        },
    }  # fmt: skip
    path = Path(f"{output}.attack.json")
    path.write_text(json.dumps(content))
    return path


def test_attacks_on_a_release_are_read_and_stale_ones_named(tmp_path: Path) -> None:
    manifest = released(tmp_path / "a", found=40, of=40)
    output = tmp_path / "a" / "out.jsonl"
    path = attack_on(output)
    (stage,) = collect([manifest, path])
    assert stage.attack is not None
    assert not any(each.rule == "audits" for each in judged([manifest], "strict").findings)
    stale = json.loads(path.read_text())
    stale["released"]["sha256"] = "0" * 64
    path.write_text(json.dumps(stale))
    found = judged([manifest], "research")
    assert found.decision is Decision.STOP
    assert Kind.AUDIT in found.reasons[0].sentence.lower()


def test_an_attack_above_epsilon_stops_a_release(tmp_path: Path) -> None:
    manifest = released(tmp_path / "a", found=400, of=400)
    path = attack_on(tmp_path / "a" / "out.jsonl")
    content = json.loads(path.read_text())
    kind = next(iter(json.loads(manifest.read_text())["release"]["types"]))
    content["types"] = {kind: content["types"]["PER"] | {"forms": [[0.5, 0.25], [0.5, 0.5]]}}
    path.write_text(json.dumps(content))
    assert judged([manifest], "research").decision is Decision.RELEASE
    (row,) = attacks(collect([manifest])[0])
    assert row.allowed is not None
    assert row.allowed >= 0.75
    content["types"][kind]["exceeds_epsilon"] = True
    path.write_text(json.dumps(content))
    found = judged([manifest], "research")
    assert found.decision is Decision.STOP
    assert "more often than epsilon allows" in found.reasons[0].sentence
    content["types"][kind]["forms"] = [[0, "x"]]
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match="share of every form"):
        attacks(collect([manifest])[0])


def test_a_released_text_that_was_altered_is_named(tmp_path: Path) -> None:
    manifest = released(tmp_path / "a", found=400, of=400)
    assert judged([manifest], "research").decision is Decision.RELEASE
    output = tmp_path / "a" / "out.jsonl"
    shutil.copy(tmp_path / "a" / "in.jsonl", output)
    found = judged([manifest], "research")
    assert found.decision is Decision.STOP
    assert Kind.RELEASED in found.reasons[0].sentence.lower()


def test_a_manifest_rewritten_with_its_hash_breaks_its_seal(tmp_path: Path) -> None:
    manifest = released(tmp_path / "a", found=400, of=400)
    content = json.loads(manifest.read_text())
    content["configuration"]["delta"] = 0.5
    manifest.write_text(json.dumps(with_hash(content)))
    found = judged([manifest], "research")
    assert found.decision is Decision.STOP
    assert "altered and its hash recomputed" in found.reasons[0].sentence
