"""What is shared of a run says the same of two inputs that differ in one person.

Two trainings on neighbouring inputs, with equal seeds and a declared population, are compared file
by file, as somebody would who was handed both folders without their `private/`.
"""

import json
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tests.conftest import RunCli
from tests.nlu.small import OPTIONS, small_parts, write_parts

from sottovoce.corpora import Utterance
from sottovoce.corpora.splits import Parts
from sottovoce.io import allowed
from sottovoce.io.allowed import WHOLE
from sottovoce.io.run import Run
from sottovoce.nlu.schema import Schema

torch.set_num_threads(1)
DECLARED = ("--method", "dp-sgd", "--noise-multiplier", 2, "--population", 1000, "--epochs", 1,
            "--batch-size", 250, "--seed", 7)  # fmt: skip
BY_USER = (*DECLARED, "--unit", "user")
WEIGHTS = "model.safetensors"


@pytest.fixture(autouse=True)
def ledgers_without_random_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledgers have random names, drawn without a look at the data: here all have the same."""
    names = SimpleNamespace(token_hex=lambda size: "0" * 2 * size)
    monkeypatch.setattr("sottovoce.privacy.ledger.secrets", names)


def stranger(user: str = "a stranger") -> Utterance:
    """A record with labels that the data has anyway."""
    return replace(small_parts().train[0], id="stranger", user=user)


def more(parts: Parts) -> Parts:
    return replace(parts, train=(*parts.train, stranger()))


def fewer(parts: Parts) -> Parts:
    return replace(parts, train=parts.train[:-1])


def replaced(parts: Parts) -> Parts:
    return replace(parts, train=(*parts.train[:-1], stranger()))


def without_a_user(parts: Parts) -> Parts:
    gone = parts.train[0].user
    return replace(parts, train=tuple(u for u in parts.train if u.user != gone))


def other_tests(parts: Parts) -> Parts:
    return replace(parts, valid=parts.valid[:-3], test=parts.test[5:])


NEIGHBOURS = {
    "one utterance more": (more, DECLARED),
    "one utterance fewer": (fewer, DECLARED),
    "one utterance replaced": (replaced, DECLARED),
    "one user more": (more, BY_USER),
    "one user fewer": (without_a_user, BY_USER),
    "other valid and test data": (other_tests, DECLARED),
}


def trained(
    run_cli: RunCli, place: Path, parts: Parts, options: Sequence[object], *more: object
) -> Path:
    """A run in a folder of its own, on data that has the same name wherever it lies."""
    data = write_parts(place / "calls", parts)
    labels = place / "labels.json"
    labels.write_text(json.dumps(Schema.of(small_parts().train, declared=True).to_json()))
    result = run_cli(
        "train", data, *OPTIONS, *options, "--labels", labels, *more, "-o", place / "run"
    )
    assert result.exit_code == 0, result.stderr
    return place / "run"


def shared_files(run: Path) -> dict[str, str]:
    """Everything that is shared but the weights; in place of their hash stands nothing."""
    found = {
        str(path.relative_to(run)): path
        for path in sorted(run.rglob("*"))
        if path.is_file() and path.relative_to(run).parts[0] != "private"
    }
    weights = json.loads(found["config.json"].read_text())["weights"]["sha256"]
    return {
        name: path.read_text(encoding="utf-8").replace(weights, "")
        for name, path in found.items()
        if name != WEIGHTS
    }


def differing(one: Path, other: Path) -> set[str]:
    left, right = shared_files(one), shared_files(other)
    return {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}


@pytest.mark.parametrize("case", NEIGHBOURS)
def test_neighbouring_inputs_leave_equal_public_files(
    run_cli: RunCli, tmp_path: Path, case: str
) -> None:
    neighbour, options = NEIGHBOURS[case]
    parts = small_parts()
    one = trained(run_cli, tmp_path / "one", parts, options)
    other = trained(run_cli, tmp_path / "other", neighbour(parts), options)
    assert differing(one, other) == set()
    assert {"run.json", "README.md", "ledger.jsonl", "config.json"} <= shared_files(one).keys()
    # The difference is there to be seen, where it is kept.
    kept = [Run(run).private_part() for run in (one, other)]
    assert kept[0] != kept[1]


@pytest.mark.parametrize("key", ["data", "timings", "metrics"])
def test_without_the_list_of_public_keys_the_run_file_tells_the_neighbours_apart(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setitem(allowed.KEYS, key, WHOLE)
    neighbour = other_tests if key == "metrics" else more
    one = trained(run_cli, tmp_path / "one", small_parts(), DECLARED)
    other = trained(run_cli, tmp_path / "other", neighbour(small_parts()), DECLARED)
    assert "run.json" in differing(one, other)


def test_without_a_declared_population_the_files_differ_and_the_guarantee_says_so(
    run_cli: RunCli, tmp_path: Path
) -> None:
    counted = [option for option in DECLARED if option not in ("--population", 1000)]
    counted += ["--batch-size", 40]
    one = trained(run_cli, tmp_path / "one", small_parts(), counted)
    other = trained(run_cli, tmp_path / "other", more(small_parts()), counted)
    assert "run.json" in differing(one, other)
    for run in (one, other):
        told = Run(run).read_run()["guarantee"]["not_covered"]
        assert any("the number of examples" in each for each in told)


def test_published_scores_are_told_as_not_covered(run_cli: RunCli, tmp_path: Path) -> None:
    run = trained(run_cli, tmp_path, small_parts(), DECLARED, "--publish-metrics")
    found = Run(run).read_run()
    assert set(found["metrics"]) == {"valid", "test"}
    assert any("scores" in each for each in found["guarantee"]["not_covered"])


def test_an_audit_leaves_nothing_of_its_own_to_share(run_cli: RunCli, tmp_path: Path) -> None:
    runs = [
        trained(run_cli, tmp_path / "one", small_parts(), DECLARED),
        trained(run_cli, tmp_path / "other", more(small_parts()), DECLARED),
    ]
    for run in runs:
        result = run_cli("audit", run, "--attack", "loss", "--json")
        assert result.exit_code == 0, result.stderr
        assert (run / "private" / "audit.json").is_file()
    assert differing(*runs) == set()
    # The twin: published by hand, the audit tells them apart.
    for run in runs:
        assert run_cli("audit", run, "--attack", "loss", "--publish").exit_code == 0
    assert "audit.json" in differing(*runs)


def test_nobody_else_may_read_what_is_private(run_cli: RunCli, tmp_path: Path) -> None:
    run = trained(run_cli, tmp_path, small_parts(), DECLARED)
    assert run_cli("audit", run, "--attack", "loss").exit_code == 0
    inside = [run / "private", *(run / "private").rglob("*")]
    assert len(inside) > 3
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in inside)
    assert "*" in (run / "private" / ".gitignore").read_text().splitlines()


def test_the_hash_of_the_data_is_of_no_use_without_the_key(run_cli: RunCli, tmp_path: Path) -> None:
    """Somebody who guesses the data cannot confirm the guess from two private files either."""
    one = trained(run_cli, tmp_path / "one", small_parts(), DECLARED)
    other = trained(run_cli, tmp_path / "other", small_parts(), DECLARED)
    hashes = [
        json.loads((run / "private/settings.json").read_text())["hashes"] for run in (one, other)
    ]
    assert hashes[0].keys() == hashes[1].keys()
    assert not set(hashes[0].values()) & set(hashes[1].values())


def test_data_hashed_under_one_key_is_recognised(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of the test above: without a random key equal data has equal hashes."""
    monkeypatch.setattr("sottovoce.io.run.secrets.token_bytes", bytes)
    one = trained(run_cli, tmp_path / "one", small_parts(), DECLARED)
    other = trained(run_cli, tmp_path / "other", small_parts(), DECLARED)
    hashes = [
        json.loads((run / "private/settings.json").read_text())["hashes"] for run in (one, other)
    ]
    assert hashes[0] == hashes[1]


def test_a_private_folder_that_is_a_link_is_refused(run_cli: RunCli, tmp_path: Path) -> None:
    """A link would put the private files where somebody else looks."""
    (tmp_path / "public").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "private").symlink_to(tmp_path / "public")
    data = write_parts(tmp_path / "calls", small_parts())
    result = run_cli("train", data, *OPTIONS, *DECLARED, "-o", tmp_path / "run")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert not list((tmp_path / "public").iterdir())
