"""`sottovoce train`, used by somebody careless: numbers that do not fit, data that changed, roles.

Each test is what a person typed, judged by what the command prints and leaves in the folder.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import RunCli
from tests.nlu.small import OPTIONS, SMALL, small_parts, write_parts

from sottovoce.corpora import Utterance, write
from sottovoce.corpora.objects import from_object
from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit import settings
from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.runs import experiment
from sottovoce.privacy.guarantee import largest_delta, rounded_up
from sottovoce.privacy.ledger import Ledger
from sottovoce.training import Method

torch.set_num_threads(1)
PRIVATE = ("--method", "dp-sgd", "--noise-multiplier", 2, "--epochs", 1)


def records(place: Path, utterances: tuple[Utterance, ...]) -> Path:
    path = place / "calls.jsonl"
    write(path, utterances)
    return path


def trained(run_cli: RunCli, data: Path, folder: Path, *options: object) -> dict[str, Any]:
    result = run_cli("train", data, *OPTIONS, *PRIVATE, *options, "-o", folder, "--json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def refused(run_cli: RunCli, data: Path, folder: Path, *options: object) -> str:
    """One sentence, and nothing that could be mistaken for a run."""
    result = run_cli("train", data, *OPTIONS, *PRIVATE, *options, "-o", folder)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert not (folder / "run.json").exists()
    return result.stderr


def test_one_example_is_refused(run_cli: RunCli, tmp_path: Path) -> None:
    data = records(tmp_path, small_parts().train[:1])
    assert "at least two examples" in refused(run_cli, data, tmp_path / "run", "--batch-size", 1)


@pytest.mark.parametrize("count", [2, 7, 40])
def test_few_examples_do_not_get_a_delta_that_means_nothing(
    run_cli: RunCli, tmp_path: Path, count: int
) -> None:
    data = records(tmp_path, small_parts().train[:count])
    guarantee = trained(run_cli, data, tmp_path / "run", "--batch-size", count)["guarantee"]
    assert guarantee["verdict"] == "holds"
    assert guarantee["delta"] <= min(1e-3, largest_delta(count))


def test_with_the_old_default_two_examples_have_a_delta_of_a_half(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: and then at least the verdict is that nothing holds."""
    monkeypatch.setattr(settings, "default_delta", lambda population: max(2, population) ** -1.1)
    data = records(tmp_path, small_parts().train[:2])
    guarantee = trained(run_cli, data, tmp_path / "run", "--batch-size", 2)["guarantee"]
    assert guarantee["delta"] > 0.4
    assert guarantee["verdict"] == "no-guarantee"
    assert any("population" in reason for reason in guarantee["reasons"])


@pytest.mark.parametrize("population", [1, 39])
def test_a_population_below_what_is_there_is_refused(
    run_cli: RunCli, tmp_path: Path, population: int
) -> None:
    data = records(tmp_path, small_parts().train[:40])
    said = refused(run_cli, data, tmp_path / "run", "--population", population)
    assert "at least the 40 examples in the data" in said
    # The twin: nobody but the counting of the data sees the contradiction.
    blind = Settings(**SMALL, method="dp-sgd", noise_multiplier=2, population=population)  # type: ignore[arg-type]
    assert blind.plan(population).population == population


def test_a_population_of_users_is_compared_with_users(run_cli: RunCli, tmp_path: Path) -> None:
    utterances = small_parts().train[:40]
    users = len({u.user for u in utterances})
    data = records(tmp_path, utterances)
    by_user = ("--unit", "user", "--batch-size", 5, "--population")
    assert "users in the data" in refused(run_cli, data, tmp_path / "no", *by_user, users - 1)
    assert trained(run_cli, data, tmp_path / "run", *by_user, users)["guarantee"]["unit"] == "user"


@pytest.mark.parametrize("delta", [0.5, 0.003])
def test_a_delta_above_a_tenth_of_one_over_the_population_is_refused(
    run_cli: RunCli, tmp_path: Path, delta: float
) -> None:
    data = records(tmp_path, small_parts().train[:40])
    said = refused(run_cli, data, tmp_path / "run", "--delta", delta)
    assert "a tenth of one over the population of 40" in said


def test_the_verdict_sees_a_delta_that_slipped_past_the_settings(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: without the refusal the run is made, and its verdict is still no-guarantee."""
    monkeypatch.setattr(settings, "largest_delta", lambda population: 1.0)
    data = records(tmp_path, small_parts().train[:40])
    guarantee = trained(run_cli, data, tmp_path / "run", "--delta", 0.5)["guarantee"]
    assert guarantee["verdict"] == "no-guarantee"


def test_an_epsilon_for_plain_sgd_is_refused_however_it_is_written() -> None:
    for method in ("sgd", Method.SGD):
        with pytest.raises(InvalidInput, match="private method for an epsilon, got sgd"):
            Settings(method=method, epsilon=3)  # type: ignore[arg-type]


def test_settings_that_are_not_parsed_plan_an_epsilon_for_sgd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The twin: text that no comparison recognises passes every check."""
    monkeypatch.setattr("sottovoce._validate.parse_fields", lambda instance: None)
    assert Settings(method="sgd", epsilon=3).epsilon == 3  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "roles", [("user", "agent"), ("USER", "SYSTEM"), ("customer", "Assistant"), ("<human>", "bot")]
)
@pytest.mark.parametrize("field", ["speaker", "client", "user"])
def test_a_role_is_not_a_person(
    run_cli: RunCli, tmp_path: Path, field: str, roles: tuple[str, str]
) -> None:
    data = tmp_path / "calls.jsonl"
    lines = [
        {"tokens": u.tokens, "slots": u.slots, "intent": u.intent, field: roles[number % 2]}
        for number, u in enumerate(small_parts().train)
    ]
    data.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    said = refused(run_cli, data, tmp_path / "run", "--unit", "user", "--batch-size", 2)
    assert "--unit example" in said
    # What is not taken for the user is not lost either.
    if field != "user":
        assert from_object(json.loads(json.dumps(lines[0]))).extra == {field: roles[0]}


def test_speaker_numbers_of_a_diarisation_are_not_persons(run_cli: RunCli, tmp_path: Path) -> None:
    data = records(
        tmp_path,
        tuple(replace(u, user=f"spk_{n % 2}") for n, u in enumerate(small_parts().train)),
    )
    said = refused(run_cli, data, tmp_path / "run", "--unit", "user", "--batch-size", 2)
    assert "got 2 in 120 records" in said


def test_without_the_check_two_roles_are_protected_as_two_users(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: 120 callers get the guarantee of two."""
    monkeypatch.setattr(experiment, "_check_persons", lambda users: None)
    data = records(
        tmp_path,
        tuple(replace(u, user=("user", "agent")[n % 2]) for n, u in enumerate(small_parts().train)),
    )
    found = trained(run_cli, data, tmp_path / "run", "--unit", "user", "--batch-size", 2)
    assert found["configuration"]["population"] == 2
    assert found["guarantee"]["verdict"] == "holds"


def test_a_folder_with_a_run_is_never_begun_anew(run_cli: RunCli, tmp_path: Path) -> None:
    data = write_parts(tmp_path / "calls", small_parts())
    run = tmp_path / "run"
    trained(run_cli, data, run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    spent = Ledger.read(run / "ledger.jsonl").entries
    for more in ((), ("--resume",)):
        result = run_cli("train", data, *OPTIONS, *PRIVATE, *more, "-o", run)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    # Who deletes the run file, to get on, still has the ledger in the way.
    (run / "run.json").unlink()
    for more in ((), ("--resume",)):
        result = run_cli("train", data, *OPTIONS, *PRIVATE, *more, "-o", run)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1), more
    # The ledger notes that it was opened, and nothing else has changed.
    assert Ledger.read(run / "ledger.jsonl").entries == spent
    now = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for path, kept in before.items():
        if path not in (run / "run.json", run / "ledger.jsonl"):
            assert now[path] == kept, path
    assert now.keys() == before.keys() - {run / "run.json"}


TUNED = ("--method", "dp-sgd", "--epochs", 1, "--noise-multiplier", "2,3", "--clip-norm", "0.5",
         "--learning-rate", "0.01")  # fmt: skip


def test_a_search_that_is_charged_is_paid_for_by_the_training(
    run_cli: RunCli, tmp_path: Path
) -> None:
    data = write_parts(tmp_path / "calls", small_parts())
    search, best = tmp_path / "search", tmp_path / "search" / "best.json"
    told = run_cli("tune", data, *OPTIONS, *TUNED, "--charge", "-o", search)
    assert told.exit_code == 0, told.stderr
    promised = json.loads(best.read_text())["guarantee"]
    # What is printed before is what is printed after, and what the ledger in the folder says.
    result = run_cli("train", data, "--settings", best, "-o", tmp_path / "run", "--json")
    assert result.exit_code == 0, result.stderr
    guarantee = json.loads(result.stdout)["guarantee"]
    assert guarantee["epsilon"] == pytest.approx(promised["epsilon"])
    assert f"epsilon = {rounded_up(promised['epsilon'])}" in " ".join(told.stdout.split())
    ledger = Ledger.read(tmp_path / "run" / "ledger.jsonl")
    assert ledger.guarantee(guarantee["delta"]).epsilon == pytest.approx(guarantee["epsilon"])
    assert any("valid part" in each for each in guarantee["not_covered"])
    # The twin: settings without what they cost are trained as if nobody had searched.
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(json.loads(best.read_text())["settings"]))
    result = run_cli("train", data, "--settings", bare, "-o", tmp_path / "bare", "--json")
    assert json.loads(result.stdout)["guarantee"]["epsilon"] < 0.8 * guarantee["epsilon"]


def test_a_search_is_not_shaken_off(run_cli: RunCli, tmp_path: Path) -> None:
    """Somebody edits the file of the best settings, or protects somebody else with it."""
    data = write_parts(tmp_path / "calls", small_parts())
    search, best = tmp_path / "search", tmp_path / "search" / "best.json"
    assert run_cli("tune", data, *OPTIONS, *TUNED, "-o", search).exit_code == 0
    result = run_cli("train", data, "--settings", best, "-o", tmp_path / "run", "--json")
    uncovered = json.loads(result.stdout)["guarantee"]["not_covered"]
    assert any("choosing among 2 trials" in each for each in uncovered)
    assert run_cli("tune", data, *OPTIONS, *TUNED, "--charge", "-o", search).exit_code == 0
    found = json.loads(best.read_text())
    other_unit = ("--unit", "user", "--batch-size", 5)
    result = run_cli("train", data, "--settings", best, *other_unit, "-o", tmp_path / "other")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "the costs cannot be added" in result.stderr
    cut = {key: value for key, value in found["ledger"].items() if key != "records"}
    damages: tuple[dict[str, object], ...] = (
        {"ledger": None},
        {"ledger": {}},
        {"ledger": cut},
        {"trials": "two"},
    )
    for damage in damages:
        if found | damage == found:
            continue
        best.write_text(json.dumps(found | damage))
        result = run_cli("train", data, "--settings", best, "-o", tmp_path / "other")
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1), damage


def test_what_a_search_leaves_to_share_has_no_scores_and_no_seed(
    run_cli: RunCli, tmp_path: Path
) -> None:
    data = write_parts(tmp_path / "calls", small_parts())
    search = tmp_path / "search"
    assert run_cli("tune", data, *OPTIONS, *TUNED, "--seed", 3, "-o", search).exit_code == 0
    assert {path.name for path in search.iterdir()} == {"best.json", "private"}
    found = json.loads((search / "best.json").read_text())
    assert set(found) == {"settings", "trials", "charged", "ledger", "guarantee"}
    assert "seed" not in found["settings"]
    kept = next((search / "private" / "trials").iterdir())
    assert {"scores", "seconds"} <= json.loads(kept.read_text()).keys()  # the twin
    assert kept.stat().st_mode & 0o077 == 0
