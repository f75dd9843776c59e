"""What people have in their loops: averages, schedules, groups, several optimisers, public data."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Unit
from sottovoce.privacy.sampling import SamplingKey
from sottovoce.training import Plan, PrivateTraining, Together
from sottovoce.training.batches import Batches

POPULATION = 40
PLAN = Plan(population=POPULATION, batch_size=20, epochs=2, delta=1e-3)


def data() -> tuple[Tensor, Tensor]:
    x = torch.randn(POPULATION, 4, generator=torch.Generator().manual_seed(0))
    return x, x.argmax(1) % 3


def make() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def weight(model: nn.Module, layer: int) -> nn.Parameter:
    return model.get_parameter(f"{layer}.weight")


def train(training: PrivateTraining, model: nn.Module, after_step: object = None) -> None:
    x, y = data()
    for step in training.steps():
        for batch in step:
            step.backward(cross_entropy(model(x[batch]), y[batch], reduction="none"))
        if callable(after_step):
            after_step()


def test_an_exponential_average() -> None:
    model = make()
    update = get_ema_multi_avg_fn(0.5)  # type: ignore[no-untyped-call]
    average = AveragedModel(model, multi_avg_fn=update)
    training = PrivateTraining(
        PLAN, model, torch.optim.SGD(model.parameters(), lr=0.1), owners=POPULATION, seed=1
    )
    train(training, model, lambda: average.update_parameters(model))
    assert training.guarantee().epsilon < 100
    assert not torch.equal(average.module.get_parameter("0.weight"), weight(model, 0))


def test_a_schedule_and_groups_of_parameters() -> None:
    model = make()
    groups = [
        {"params": model[0].parameters(), "lr": 0.1},
        {"params": model[2].parameters(), "lr": 0.0, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    first, last = weight(model, 0).clone(), weight(model, 2).clone()
    train(PrivateTraining(PLAN, model, optimizer, owners=POPULATION, seed=1), model, schedule.step)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.5**4)
    assert not torch.equal(first, weight(model, 0))
    assert torch.equal(last, weight(model, 2))


def test_several_optimisers() -> None:
    model = make()
    optimizer = Together(
        torch.optim.SGD(model[0].parameters(), lr=0.1),
        torch.optim.Adam(model[2].parameters(), lr=0.01),
    )
    before = [p.clone() for p in model.parameters()]
    training = PrivateTraining(PLAN, model, optimizer, owners=POPULATION, seed=1)
    train(training, model)
    assert not any(map(torch.equal, before, model.parameters()))
    with pytest.raises(InvalidInput, match="call optimizer"):
        optimizer.step()
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    assert len(state["optimizers"]) == 2


def test_epsilon_grows_with_the_steps() -> None:
    model = make()
    training = PrivateTraining(
        PLAN, model, torch.optim.SGD(model.parameters(), lr=0.1), owners=POPULATION
    )
    seen: list[float] = []
    train(training, model, lambda: seen.append(training.epsilon))
    assert seen == sorted(set(seen))
    assert seen[-1] == training.guarantee().epsilon


def test_public_losses_cost_nothing_and_are_stated() -> None:
    x, y = data()
    after = []
    for public in (False, True):
        model = make()
        loss = (lambda: cross_entropy(model(x[:5]), y[:5])) if public else None  # noqa: B023
        training = PrivateTraining(
            PLAN, model, torch.optim.SGD(model.parameters(), lr=0.1), owners=POPULATION, seed=1,
            public_loss=loss,
        )  # fmt: skip
        train(training, model)
        after.append((weight(model, 0), training.guarantee()))
    (plain, guarantee), (mixed, with_public) = after
    assert not torch.equal(plain, mixed)
    assert guarantee.epsilon == with_public.epsilon
    assert any("public loss" in text for text in with_public.assumptions)


def test_a_cap_on_the_examples_of_a_user() -> None:
    plan = Plan(
        population=10, batch_size=10, epochs=2, delta=1e-2, unit=Unit.USER, examples_per_user=3
    )
    owners = ["many"] * 30 + [f"user {i}" for i in range(9)]
    batches = Batches(plan, owners, SamplingKey.from_seed(1))
    drawn = []
    for step in range(2):
        examples = torch.cat([piece.examples for piece in batches.pieces(step)])
        assert len(examples) == 3 + 9
        drawn.append(sorted(e for e in examples.tolist() if e < 30))
    assert drawn[0] != drawn[1]
    with pytest.raises(InvalidInput, match="unit user only"):
        Plan(population=10, batch_size=10, epochs=2, delta=1e-2, examples_per_user=3)
