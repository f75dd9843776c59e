"""`sottovoce tune`: trials on validation data, kept as they finish, and what choosing costs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import RunCli
from tests.nlu.small import OPTIONS, SMALL, small_parts, write_parts

from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.runs import search
from sottovoce.nlu.runs.search import Grid, Trial, chosen, guarantee_of_choice, search_cost
from sottovoce.privacy.accounting import account
from sottovoce.privacy.facts import Contribution, NoisySum, Sampling
from sottovoce.privacy.guarantee import Guarantee, Relation, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.recipes import Decay
from sottovoce.training import Method

torch.set_num_threads(1)
PRIVATE = ("--method", "dp-sgd", "--noise-multiplier", "2,4", "--clip-norm", "0.5")
ONE_RATE = ("--learning-rate", "0.01")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parts(tmp_path_factory.mktemp("corpus") / "calls", small_parts())


def tuned(run_cli: RunCli, data: Path, folder: Path, *options: object) -> dict[str, Any]:
    result = run_cli("tune", data, *OPTIONS, *PRIVATE, *ONE_RATE, *options, "-o", folder, "--json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_best_is_told_and_choosing_it_is_charged_or_listed(
    run_cli: RunCli, data: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "search"
    found = tuned(run_cli, data, folder)
    assert found["trials"] == len(list((folder / "private/trials").iterdir())) == 2
    assert [row["ser"] for row in found["ranking"]] == sorted(
        row["ser"] for row in found["ranking"]
    )
    assert found["scores"]["ser"]["value"] == found["ranking"][0]["ser"]
    kept = json.loads((folder / "best.json").read_text())
    assert kept["settings"] == found["settings"]
    sentence = "choosing among 2 trials by their scores on the valid part is not charged"
    own = Guarantee.from_json(found["guarantee"])
    assert sentence in own.not_covered
    noise = found["settings"]["noise_multiplier"]
    planned = Settings(**SMALL, method=Method.DP_SGD, noise_multiplier=noise).plan(120)
    assert own.epsilon == pytest.approx(planned.guarantee().epsilon)
    # With --charge, both trials are charged; they are not trained again.
    before = {path: path.stat().st_mtime_ns for path in (folder / "private/trials").iterdir()}
    charged = Guarantee.from_json(tuned(run_cli, data, folder, "--charge")["guarantee"])
    assert {
        path: path.stat().st_mtime_ns for path in (folder / "private/trials").iterdir()
    } == before
    assert not any("choosing among" in each for each in charged.not_covered)
    assert any("grid of 2 trials was fixed" in each for each in charged.assumptions)
    # The best trial is trained again.
    plans = [replace(planned, noise_multiplier=z) for z in (2.0, 4.0, noise)]
    both = account(
        [entry for plan in plans for entry in plan.recipe().entries()],
        unit=Unit.EXAMPLE,
        relation=Relation.ADD_OR_REMOVE,
        delta=planned.delta,
    )
    assert charged.epsilon == pytest.approx(both.epsilon)
    assert charged.epsilon > max(plan.guarantee().epsilon for plan in plans)
    # `train` accepts the result.
    result = run_cli(
        "train", data, "--settings", folder / "best.json", "-o", tmp_path / "run", "--json"
    )
    assert result.exit_code == 0, result.stderr
    made = json.loads(result.stdout)
    assert made["asked"] == found["settings"]
    assert made["guarantee"]["epsilon"] == pytest.approx(charged.epsilon)


def test_an_interrupted_search_resumes(
    run_cli: RunCli, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Settings] = []
    run = search._run

    def interrupted(settings: Settings, *others: Any) -> Trial:
        calls.append(settings)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run(settings, *others)

    monkeypatch.setattr(search, "_run", interrupted)
    with pytest.raises(AssertionError, match="Interrupted"):
        tuned(run_cli, data, tmp_path)
    assert not (tmp_path / "best.json").exists()
    assert tuned(run_cli, data, tmp_path)["trials"] == 2
    assert len(calls) == 3
    assert calls[1] == calls[2] != calls[0]
    # Another search is rejected, and a damaged trial is an error.
    other = run_cli("tune", data, *OPTIONS, *PRIVATE, "--learning-rate", "0.1", "-o", tmp_path)
    assert "name another folder" in other.stderr
    next((tmp_path / "private/trials").iterdir()).write_text("{")
    damaged = run_cli("tune", data, *OPTIONS, *PRIVATE, *ONE_RATE, "-o", tmp_path)
    assert (damaged.exit_code, damaged.stderr.count("\n")) == (2, 1)
    assert "delete the file to repeat the trial" in damaged.stderr


def test_a_random_part_of_the_grid_is_drawn_once(
    run_cli: RunCli, data: Path, tmp_path: Path
) -> None:
    limited = ("tune", data, *OPTIONS, "--epochs", 1, "--max-trials", 1, "-o", tmp_path)
    first = run_cli(*limited)
    assert first.exit_code == 0, first.stderr
    assert "SER %" in first.stdout
    assert "No guarantee" in " ".join(first.stdout.split())
    names = sorted(path.name for path in (tmp_path / "private/trials").iterdir())
    assert len(names) == 1
    assert run_cli(*limited).exit_code == 0
    assert sorted(path.name for path in (tmp_path / "private/trials").iterdir()) == names


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--clip-norm", "one"), "Expected numbers such as 0.1,0.5,1 for --clip-norm, got 'one'."),
        (("--method", "dp-sgd", "--tau", "0.1"), "Expected a decay with values of tau to try"),
        (("--method", "dp-sgd", "--epsilon", 1, "--noise-multiplier", "1,2"), "got both"),
        (("--method", "dp-sgd", "--clip-norm", "0,1"), "Expected clip_norm > 0"),
        (("--labels", "x", "--public-labels"), "does not exist"),
    ],
)
def test_what_cannot_be_tried(
    run_cli: RunCli, data: Path, tmp_path: Path, options: tuple[object, ...], sentence: str
) -> None:
    result = run_cli("tune", data, *OPTIONS, *options, "-o", tmp_path / "search")
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not (tmp_path / "search").exists()


def test_nothing_to_choose_by(run_cli: RunCli, data: Path, tmp_path: Path) -> None:
    result = run_cli("tune", data / "train.jsonl", *OPTIONS, "-o", tmp_path / "search")
    assert "Expected a valid part" in result.stderr


def test_the_papers_grids() -> None:
    linear = Settings(method=Method.EDP_SGD, decay=Decay.LINEAR)
    grid = Grid.of_paper(linear)
    assert grid.clip_norm == (0.1, 0.25, 0.5, 1, 2, 5)
    assert (min(grid.noise_multiplier), max(grid.noise_multiplier)) == (1e-6, 1)
    assert grid.tau == (0.02, 0.05, 0.07, 0.1, 0.3, 0.5, 0.7, 0.9)
    exponential = Grid.of_paper(replace(linear, decay=Decay.EXPONENTIAL))
    assert exponential.tau == (0.01, 0.02, 0.05, 0.08, 0.1, 0.2, 0.35, 0.5)
    assert len(set(grid.around(linear))) == 6 * 7 * 8 * 3
    # Fixed values are not searched.
    fixed = Settings(method=Method.DP_SGD, epsilon=3)
    assert len(Grid.of_paper(fixed).around(fixed)) == 6 * 3
    assert len(Grid.of_paper(Settings()).around(Settings())) == 3
    with pytest.raises(InvalidInput, match="decay"):
        Grid(tau=(0.1,)).around(fixed)
    some = chosen(grid.around(linear), 10)
    assert len(set(some)) == 10
    assert chosen(some, 20) == chosen(some, None) == some


def test_batches_of_two_trials_are_not_disjoint() -> None:
    """Two trainings with batches from a pool of the same name are charged twice."""
    shuffled = NoisySum(
        unit=Unit.EXAMPLE,
        clip_norm=1.0,
        scales=(1.0,),
        noise_stds=(4.0,),
        contribution=Contribution.PER_UNIT,
        sampling=Sampling.SHUFFLE,
        pool="epoch 0",
    )
    ledger = Ledger(unit=Unit.EXAMPLE, relation=Relation.REPLACE_ONE)
    ledger.spend(shuffled, 5)
    trial = Trial(
        settings=Settings(),
        scores={"ser": {"value": 0.5}},
        guarantee=ledger.guarantee(1e-5),
        ledger=ledger,
        seconds=1.0,
    )
    two = guarantee_of_choice(search_cost([trial, trial], charge=True), trial)
    assert two.epsilon > 1.6 * trial.guarantee.epsilon
    # The twin: in one pool, the second would have been free.
    ledger.spend(shuffled, 5)
    assert ledger.guarantee(1e-5).epsilon == pytest.approx(trial.guarantee.epsilon)
