"""A run file that somebody has edited: the page never shows better than its ledger gives."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import RunCli

from sottovoce.corpora import Utterance, read, write
from sottovoce.deid import Deidentifier, Setting
from sottovoce.deid.detect import Gazetteer
from sottovoce.deid.files.corpus_file import release_file
from sottovoce.deid.files.manifest import with_hash
from sottovoce.privacy.facts import NoisySum
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.report import derivation

CALL = Utterance(tokens=("call", "maria"), slots=("O", "O"), user="ann", id="1")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    deid = Deidentifier(detector=Gazetteer({"PER": ["maria"]}), setting=Setting(epsilon=3.0))
    write(tmp_path / "calls.jsonl", [CALL])
    release_file(deid, read(tmp_path / "calls.jsonl"), tmp_path / "out.jsonl")
    return tmp_path / "out.jsonl.run.json"


def everywhere(content: Any) -> None:
    for each in (
        content["guarantee"],
        *content["release"]["guarantees"].values(),
        *(kind["guarantee"] for kind in content["release"]["types"].values()),
    ):
        each["epsilon"] = 0.0123


def with_a_delta(content: Any) -> None:
    everywhere(content)
    for each in (
        *content["release"]["guarantees"].values(),
        *(kind["guarantee"] for kind in content["release"]["types"].values()),
    ):
        each["delta"] = 0.01


def without_ledgers(content: Any) -> None:
    everywhere(content)
    del content["ledger"], content["release"]["ledgers"]


def with_the_ledger_of_one_unit(content: Any) -> None:
    everywhere(content)
    for unit in ("token", "utterance"):
        del content["release"]["ledgers"][unit]


def without_the_release(content: Any) -> None:
    everywhere(content)
    del content["release"], content["ledger"]


def other_neighbours(content: Any) -> None:
    everywhere(content)
    for each in content["release"]["guarantees"].values():
        each["relation"] = "add-or-remove"


FORGERIES = [
    everywhere, with_a_delta, without_ledgers, with_the_ledger_of_one_unit, without_the_release,
    other_neighbours,
]  # fmt: skip


def forged(run: Path, forge: Callable[[Any], None]) -> None:
    content = json.loads(run.read_text())
    forge(content)
    run.write_text(json.dumps(with_hash(content)))


def page(run_cli: RunCli, run: Path) -> tuple[str, list[dict[str, Any]]]:
    out = run.parent / "page.html"
    result = run_cli("report", run, "-o", out, "--public", "--json")
    assert result.exit_code in (0, 1, 3), result.stderr
    text = re.sub(r"<(style|script).*?</\1>", "", out.read_text(), flags=re.DOTALL)
    told = json.loads(result.stdout)["stages"][0]["guarantees"]
    text = re.sub(r"<[^>]+>", " ", text)
    # The sentence that names a forged number is not the page showing it.
    return re.sub(r"(says|got) epsilon [\d.]+[,.]", "", text), told


@pytest.mark.parametrize("forge", FORGERIES)
def test_the_page_shows_no_better_guarantee_than_the_ledger_gives(
    run_cli: RunCli, run: Path, forge: Callable[[Any], None]
) -> None:
    forged(run, forge)
    text, told = page(run_cli, run)
    assert "0.0123" not in text
    assert "0.013" not in text
    assert all(each["verdict"] == "no-guarantee" or each["epsilon"] > 1 for each in told)


def test_the_run_as_it_was_is_shown(run_cli: RunCli, run: Path) -> None:
    _, told = page(run_cli, run)
    assert [each["epsilon"] for each in told] == pytest.approx([3.0] * 3)
    assert {each["verdict"] for each in told} == {"holds"}


def test_without_the_check_the_forged_number_would_be_shown(
    run_cli: RunCli, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derivation, "_verified", lambda stage, stated: (stated, []))
    forged(run, without_ledgers)
    _, told = page(run_cli, run)
    assert [each["epsilon"] for each in told] == [0.0123] * 3


def test_a_long_ledger_is_derived_again_as_well(run_cli: RunCli, tmp_path: Path) -> None:
    ledger = Ledger(unit=Unit.EXAMPLE, relation=Relation.ADD_OR_REMOVE)
    for number in range(8):
        noise = 1 / (1 + 0.01 * number)
        fact = NoisySum(unit=Unit.EXAMPLE, clip_norm=1.0, noise_stds=(noise,), sampling_rate=0.01)
        ledger.spend(fact, 100)
    true = ledger.guarantee(1e-5)
    run = {"verb": "train", "ledger": ledger.to_json(), "metrics": {}}
    run["guarantee"] = true.to_json() | {"epsilon": 0.99 * true.epsilon}
    (tmp_path / "run.json").write_text(json.dumps(run))
    _, told = page(run_cli, tmp_path / "run.json")
    assert told[0]["epsilon"] == pytest.approx(true.epsilon)
