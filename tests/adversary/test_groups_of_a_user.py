"""A user who has several examples, and is told the number of one of them."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm
from tests.conftest import RunCli
from tests.nlu.small import OPTIONS, small_parts

from sottovoce.corpora import Utterance, write
from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.runs import experiment
from sottovoce.privacy.accountants import gaussian, mixture
from sottovoce.privacy.accountants.losses import GroupLoss
from sottovoce.privacy.accounting import Entry, account
from sottovoce.privacy.facts import NoisySum, Sampling
from sottovoce.privacy.groups import group_guarantee
from sottovoce.privacy.guarantee import Guarantee, Relation, Unit, rounded_up

ADD, REPLACE = Relation.ADD_OR_REMOVE, Relation.REPLACE_ONE
PRIVATE = ("--method", "dp-sgd", "--noise-multiplier", 2, "--epochs", 1)
MOST = 4


def step(noise: float, rate: float) -> NoisySum:
    return NoisySum(unit=Unit.EXAMPLE, clip_norm=1, noise_stds=(noise,), sampling_rate=rate)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(("noise", "rate", "size"), [(1.0, 0.1, 3), (3.0, 0.5, 8), (2.0, 0.01, 20)])
def test_one_step_is_never_below_what_a_group_can_do(
    noise: float, rate: float, size: int, relation: Relation
) -> None:
    """By integration: k of the user's examples are in the sample, and all point the same way."""
    x = np.linspace(-12 * noise - size, 12 * noise + size, 400_001)
    weights = binom.pmf(np.arange(size + 1), size, rate)
    one = sum(w * norm.pdf(x, k, noise) for k, w in enumerate(weights))
    back = -1 if relation is REPLACE else 0
    other = sum(w * norm.pdf(x, back * k, noise) for k, w in enumerate(weights))
    for delta in (1e-3, 1e-6, 1e-9):
        said = group_guarantee(
            [Entry(step(noise, rate))], group_size=size, relation=relation, delta=delta
        )
        for p, q in ((one, other), (other, one)):
            true = np.maximum(p - math.exp(said.epsilon) * q, 0).sum() * (x[1] - x[0])
            assert true <= delta * (1 + 1e-6)
        # The twin: the example's own number is no guarantee to its user.
        example = account([Entry(step(noise, rate))], unit=Unit.EXAMPLE, relation=relation,
                          delta=delta)  # fmt: skip
        told = np.maximum(one - math.exp(example.epsilon) * other, 0).sum() * (x[1] - x[0])
        assert told > 2 * delta


@pytest.mark.parametrize("rate", [1e-12, 1e-17, 1e-40])
def test_rare_samples_are_told_to_the_last_digit(rate: float) -> None:
    """1 - (1 - q)^K came out as 0, and its logarithm stopped the account."""
    loss = GroupLoss(rate, 1.0, 5)
    for told in (mixture.removing_delta, mixture.replacing_delta):
        assert told(np.zeros(1), loss)[0] <= 5 * rate * 1.01 + 1e-15
    for relation in Relation:
        said = group_guarantee(
            [Entry(step(1.0, rate), 10)], group_size=5, relation=relation, delta=1e-9
        )
        assert said.holds
        assert said.epsilon < 0.1


def test_a_whole_epoch_of_shuffled_batches_moves_by_all_the_examples_of_a_user() -> None:
    facts = [
        NoisySum(unit=Unit.EXAMPLE, clip_norm=1, noise_stds=(4.0,), sampling=Sampling.SHUFFLE,
                 pool=f"epoch {epoch}")
        for epoch in range(3)
    ]  # fmt: skip
    said = group_guarantee(
        [Entry(fact, 10) for fact in facts], group_size=5, relation=REPLACE, delta=1e-6
    )
    assert said.epsilon == pytest.approx(gaussian.epsilon_of(5 * 2 / 4 * math.sqrt(3), 1e-6))


@pytest.mark.parametrize("size", [0, -1, True, "4", 2.0, math.nan, 10**5, None])
def test_a_group_is_a_number_of_examples(size: Any) -> None:
    with pytest.raises(InvalidInput, match="group_size"):
        group_guarantee([Entry(step(1.0, 0.1))], group_size=size, relation=ADD, delta=1e-6)
    if size is not None and size != 10**5:
        with pytest.raises(InvalidInput, match="max_examples_per_user"):
            Settings(method="dp-sgd", max_examples_per_user=size)  # type: ignore[arg-type]


def calls(place: Path, each: int) -> Path:
    """Forty calls, so many of every user."""
    utterances = small_parts().train[:40]
    named = [replace(u, user=f"caller {place // each}") for place, u in enumerate(utterances)]
    write(place / "calls.jsonl", tuple[Utterance, ...](named))
    return place / "calls.jsonl"


def test_the_number_of_a_user_stands_beside_that_of_an_example(
    run_cli: RunCli, tmp_path: Path
) -> None:
    data, folder = calls(tmp_path, MOST), tmp_path / "run"
    result = run_cli("train", data, *OPTIONS, *PRIVATE, "--max-examples-per-user", MOST,
                     "-o", folder)  # fmt: skip
    assert result.exit_code == 0, result.stderr
    run = json.loads((folder / "run.json").read_text())
    example, user = (Guarantee.from_json(run[key]) for key in ("guarantee", "user_guarantee"))
    assert (example.unit, user.unit) == (Unit.EXAMPLE, Unit.USER)
    assert user.epsilon > example.epsilon
    assert f"no user has more than {MOST} examples" in user.assumptions
    told = f"To a user with at most {MOST} examples: "
    assert told in result.stdout
    assert f"epsilon = {rounded_up(user.epsilon)}," in result.stdout.split(told)[1]
    assert f"**To a user** with at most {MOST} examples" in (folder / "README.md").read_text()
    # Whoever makes the report derives the number again, and one that was made up is told.
    assert _report(run_cli, tmp_path).count("its ledger gives") == 0
    run["user_guarantee"]["epsilon"] = example.epsilon
    (folder / "run.json").write_text(json.dumps(run))
    assert "its ledger gives epsilon" in _report(run_cli, tmp_path)


def _report(run_cli: RunCli, place: Path) -> str:
    page = place / "report.html"
    result = run_cli("report", place / "run", "-o", page)
    assert result.exit_code in (0, 1, 3), result.stderr
    return page.read_text() + result.stderr


def test_a_user_with_more_examples_than_declared_is_refused(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = calls(tmp_path, MOST + 1)
    asked = ("train", data, *OPTIONS, *PRIVATE, "--max-examples-per-user", MOST, "-o")
    result = run_cli(*asked, tmp_path / "run")
    assert result.exit_code == 2
    assert f"at most {MOST} examples of every user" in result.stderr
    assert not (tmp_path / "run" / "run.json").exists()
    # The twin: unchecked, the statement is made for users who are not there.
    monkeypatch.setattr(experiment, "check_examples_per_user", lambda *_: None)
    assert run_cli(*asked, tmp_path / "blind").exit_code == 0


def test_a_bound_of_examples_goes_with_protected_examples_only() -> None:
    for settings in ({"method": "sgd"}, {"method": "dp-sgd", "unit": "user"}):
        with pytest.raises(InvalidInput, match="private method that protects examples"):
            Settings(**settings, max_examples_per_user=3)  # type: ignore[arg-type]
