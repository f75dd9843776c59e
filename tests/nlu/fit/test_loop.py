"""The loop around private training: rates, averages, checkpoints, stopping."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sottovoce.corpora.synthetic import generate
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.clc import Clc, ClcShape
from sottovoce.nlu.encoders.words import Words
from sottovoce.nlu.fit.data import Encodings
from sottovoce.nlu.fit.loop import LOSS_SHOWN, Fitted, Progress, _losses_by_length, fit
from sottovoce.nlu.fit.optimisation import Optimisation, OptimizerName, Schedule
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.schema import Schema
from sottovoce.privacy.ledger import Ledger
from sottovoce.training import Method, Plan

UTTERANCES = list(generate("communication", size=60, seed=3))
SHAPE = ClcShape(word_width=8, character_width=4, filters=4, hidden=6, layers=1)
PLAN = Plan(population=60, batch_size=20, epochs=4, delta=1e-3, noise_multiplier=2.0)
OPTIMISATION = Optimisation(learning_rate=0.02, averaged=0.5)


def small_model() -> JointModel:
    torch.manual_seed(0)
    return JointModel(Schema.of(UTTERANCES), Clc(Words.hashed(50), SHAPE))


def fitted(model: JointModel, plan: Plan = PLAN, **options: object) -> Fitted:
    settings = {"optimisation": OPTIMISATION, **options}
    return fit(model, Encodings(model, UTTERANCES), plan, owners=60, **settings)  # type: ignore[arg-type]


def test_a_private_run_states_what_was_planned_and_hides_the_loss() -> None:
    moments: list[Progress] = []
    result = fitted(small_model(), on_step=moments.append)
    assert result.guarantee.epsilon == pytest.approx(PLAN.guarantee().epsilon)
    assert result.steps == PLAN.steps == len(moments)
    assert LOSS_SHOWN in result.guarantee.not_covered
    assert all("loss" not in each for each in result.history)
    assert result.history[-1]["epsilon"] == result.guarantee.epsilon
    assert moments[-1].seconds_left == 0
    assert [m.step for m in moments] == list(range(1, PLAN.steps + 1))


def test_plain_training_learns_and_has_no_guarantee() -> None:
    model = small_model()
    encodings = Encodings(model, UTTERANCES)
    before = float(model.losses(encodings.batch(range(60))).mean().detach())
    plan = replace(PLAN, method=Method.SGD, epochs=10)
    result = fitted(model, plan)
    after = float(model.losses(encodings.batch(range(60))).mean().detach())
    assert after < 0.8 * before
    assert not result.guarantee.holds
    assert float(result.history[-1]["loss"]) > 0


def test_a_stopped_run_continues_where_it_was(tmp_path: Path) -> None:
    files = {"ledger": tmp_path / "ledger.jsonl", "checkpoint": tmp_path / "checkpoint.pt"}
    asked = iter([False] * 4 + [True])
    first = fitted(small_model(), PLAN, should_stop=lambda: next(asked), **files)
    assert first.stopped
    assert first.steps == 5
    again = fitted(small_model(), PLAN, resume=True, **files)
    assert not again.stopped
    assert again.steps == PLAN.steps
    assert again.guarantee.epsilon == pytest.approx(PLAN.guarantee().epsilon)
    assert sum(e.count for e in Ledger.read(files["ledger"]).entries) == PLAN.steps


def test_averages_and_rates_survive_a_stop(tmp_path: Path) -> None:
    # Every step sees everybody, without noise: a stop must not show in the weights.
    files = {"ledger": tmp_path / "ledger.jsonl", "checkpoint": tmp_path / "checkpoint.pt"}
    plan = replace(PLAN, method=Method.SGD, batch_size=60, epochs=6)
    whole, parted = small_model(), small_model()
    fitted(whole, plan)
    asked = iter([False] * 3 + [True])
    fitted(parted, plan, should_stop=lambda: next(asked), **files)
    parted = small_model()
    fitted(parted, plan, resume=True, **files)
    for one, other in zip(whole.parameters(), parted.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (Schedule.CONSTANT, [1.0, 1.0, 1.0, 1.0]),
        (Schedule.LINEAR, [1.0, 0.75, 0.5, 0.25]),
        (Schedule.COSINE, [1.0, 0.8536, 0.5, 0.1464]),
    ],
)
def test_the_rate_depends_on_the_step_alone(schedule: Schedule, rates: list[float]) -> None:
    optimisation = Optimisation(learning_rate=1.0, encoder_rate=0.5, schedule=schedule)
    optimizer = optimisation.optimizer_of(small_model())
    for step in (2, 0, 1, 3):
        optimisation.set_rate(optimizer, step, 4)
        heads, encoder = optimizer.param_groups
        assert heads["lr"] == pytest.approx(rates[step], abs=1e-4)
        assert encoder["lr"] == pytest.approx(rates[step] / 2, abs=1e-4)


def test_warm_up() -> None:
    optimisation = Optimisation(
        learning_rate=1.0, schedule=Schedule.CONSTANT, warmup=0.5, optimizer=OptimizerName.SGD
    )
    optimizer = optimisation.optimizer_of(small_model())
    found = []
    for step in range(8):
        optimisation.set_rate(optimizer, step, 8)
        found.append(optimizer.param_groups[0]["lr"])
    assert found == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1, 1, 1])


@pytest.mark.parametrize("settings", [{"averaged": 1.0}, {"warmup": -0.1}, {"learning_rate": 0.0}])
def test_nonsense_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="Expected"):
        Optimisation(**settings)  # type: ignore[arg-type]


def test_a_killed_run_resumes_within_its_plan(tmp_path: Path) -> None:
    files = {"ledger": tmp_path / "ledger.jsonl", "checkpoint": tmp_path / "checkpoint.pt"}
    plan = replace(PLAN, epochs=15)  # saved every second step or so

    def killed(moment: Progress) -> None:
        if moment.step == 1:
            raise MemoryError

    with pytest.raises(MemoryError):
        fitted(small_model(), plan, on_step=killed, **files)
    assert Ledger.read(files["ledger"]).entries[0].count == 1
    again = fitted(small_model(), plan, resume=True, **files)
    assert again.steps == plan.steps
    # What was spent before the kill is counted, and not spent again.
    assert sum(e.count for e in Ledger.read(files["ledger"]).entries) == plan.steps
    assert again.guarantee.epsilon == pytest.approx(plan.guarantee().epsilon)


def test_steps_without_a_checkpoint_are_not_forgotten(tmp_path: Path) -> None:
    files = {"ledger": tmp_path / "ledger.jsonl", "checkpoint": tmp_path / "checkpoint.pt"}
    fitted(small_model(), PLAN, **files)
    files["checkpoint"].unlink()
    for resume in (False, True):
        with pytest.raises(InvalidInput, match="use another folder"):
            fitted(small_model(), PLAN, resume=resume, **files)


def test_a_stop_after_the_last_step_is_an_end() -> None:
    result = fitted(small_model(), replace(PLAN, epochs=1, batch_size=60), should_stop=lambda: True)
    assert result.steps == 1
    assert not result.stopped


def test_a_resumed_run_tells_all_of_its_history(tmp_path: Path) -> None:
    files = {"ledger": tmp_path / "ledger.jsonl", "checkpoint": tmp_path / "checkpoint.pt"}
    asked = iter([False] * 3 + [True])
    first = fitted(small_model(), PLAN, should_stop=lambda: next(asked), **files)
    again = fitted(small_model(), PLAN, resume=True, **files)
    assert again.history[: len(first.history)] == first.history
    assert [each["step"] for each in again.history] == list(range(1, PLAN.steps + 1))
    assert again.examples > first.examples
    assert again.seconds > first.seconds


def test_losses_by_length_are_those_of_one_batch() -> None:
    model = small_model().eval()
    encodings = Encodings(model, UTTERANCES)
    indices = torch.tensor([5, 3, 40, 22, 11, 0])
    torch.testing.assert_close(
        _losses_by_length(model, encodings, indices), model.losses(encodings.batch(indices))
    )
