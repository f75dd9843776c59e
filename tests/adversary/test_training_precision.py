"""Sums and noise are in float32 or better whatever the model computes in."""

import pytest
import torch
from torch import Tensor, nn

from sottovoce.errors import SottovoceError
from sottovoce.training import Plan, PrivateTraining
from sottovoce.training.clipping import totals as totals_module
from sottovoce.training.noise import TensorNoise

SIZE = 512
METHODS = ("dp-sgd", "textbook", "edp-sgd")


def plan(size: int = 16, method: str = "dp-sgd", **settings: object) -> Plan:
    given = {"population": size, "batch_size": size, "epochs": 2, "delta": 1e-6, **settings}
    return Plan(method=method, **given)  # type: ignore[arg-type]


def begin(model: nn.Module, chosen: Plan, size: int = 16) -> PrivateTraining:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    return PrivateTraining(chosen, model, optimizer, owners=size)


def ones(model: nn.Module, batch: Tensor) -> Tensor:
    weight = next(model.parameters())
    scores: Tensor = model(torch.ones(len(batch), 2, dtype=weight.dtype))
    return scores.squeeze(1)


def released_sums(monkeypatch: pytest.MonkeyPatch, method: str, runs: int) -> list[Tensor]:
    """The noisy sums of a bfloat16 model whose examples all pull the same way."""
    found: list[Tensor] = []
    honest = TensorNoise.add

    def listen(self: TensorNoise, tensors: list[Tensor], stds: list[float]) -> None:
        honest(self, tensors, stds)
        found.append(tensors[0].flatten().clone())

    monkeypatch.setattr(TensorNoise, "add", listen)
    for _ in range(runs):
        model = nn.Linear(2, 1, bias=False).to(torch.bfloat16)
        workers = {"workers": 64} if method == "edp-sgd" else {}
        chosen = plan(SIZE, method, epochs=1, virtual_batch=SIZE, **workers)
        training = begin(model, chosen, SIZE)
        for step in training.steps():
            for batch in step:
                step.backward(ones(model, batch))
        found[-1] *= chosen.divisor
    return found


@pytest.mark.parametrize("method", METHODS)
def test_sums_of_a_bfloat16_model_keep_their_noise(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = released_sums(monkeypatch, method, 3)
    assert all(each.dtype == torch.float32 for each in sums)
    values = {float(value) for each in sums for value in each}
    assert len(values) == 6
    # In bfloat16 a sum of a few hundred is a multiple of 2: the noise would be gone.
    assert any(value % 1 for value in values)


def test_in_bfloat16_the_noise_would_be_rounded_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: sums in the model's own type take few values."""
    from sottovoce.training.clipping import totals as tables

    own = lambda tensor: tensor.dtype  # noqa: E731
    monkeypatch.setattr(totals_module, "sum_dtype", own)
    monkeypatch.setattr(
        "sottovoce.training.checks.neighbours.NeighbourCheck.trials", lambda _: iter(())
    )
    monkeypatch.setattr(tables.TableGradients, "zeros", lambda self, p: torch.zeros_like(p))
    sums = released_sums(monkeypatch, "dp-sgd", 3)
    assert all(each.dtype == torch.bfloat16 for each in sums)
    assert all(float(value) % 1 == 0 for each in sums for value in each)


@pytest.mark.parametrize("method", METHODS)
def test_float16_is_refused_at_the_start(method: str) -> None:
    with pytest.raises(SottovoceError, match="float16 in weight"):
        begin(nn.Linear(2, 1).half(), plan(method=method))


@pytest.mark.parametrize("method", METHODS)
def test_float16_is_refused_later(method: str) -> None:
    model = nn.Linear(2, 1)
    training = begin(model, plan(method=method))

    def go() -> None:
        for step in training.steps():
            for batch in step:
                step.backward(ones(model, batch).float())
            model.half()

    with pytest.raises(SottovoceError, match="float16 in weight"):
        go()


@pytest.mark.parametrize("method", METHODS)
def test_a_change_of_type_inside_of_a_step_is_refused(method: str) -> None:
    model = nn.Linear(2, 1)
    training = begin(model, plan(method=method))

    def go() -> None:
        for step in training.steps():
            for batch in step:
                step.backward(ones(model, batch).float())
                model.to(torch.bfloat16)

    with pytest.raises(SottovoceError, match="Expected weights"):
        go()


@pytest.mark.parametrize("method", METHODS)
def test_another_type_between_steps_is_trained(method: str) -> None:
    """Rounding the weights is public, and has to be declared."""
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    training = PrivateTraining(
        plan(method=method), model, optimizer, owners=16, public_updates=True
    )
    for step in training.steps():
        for batch in step:
            step.backward(ones(model, batch).float())
        model.to(torch.bfloat16)
    assert training.guarantee().holds


class Mixed(nn.Module):
    """A bfloat16 body and a float32 head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.body = nn.Linear(2, 8).to(torch.bfloat16)
        self.head = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(torch.tanh(self.body(x)).float())
        return scores


@pytest.mark.parametrize("method", METHODS)
def test_mixed_types_are_trained(method: str) -> None:
    model = Mixed()
    training = begin(model, plan(method=method))
    for step in training.steps():
        for batch in step:
            step.backward(ones(model, batch))
    assert training.guarantee().holds


def test_a_loss_divided_by_the_batch_is_found_in_bfloat16() -> None:
    """Half precision rounds more, so the check allows for more, and finds this all the same."""
    torch.manual_seed(1)
    model = nn.Linear(2, 1).to(torch.bfloat16)
    training = begin(model, plan(64, virtual_batch=64), 64)

    def go() -> None:
        for step in training.steps():
            for batch in step:
                step.backward(ones(model, batch) / len(batch))

    with pytest.raises(SottovoceError, match="one example"):
        go()


def test_autocast_is_refused_where_norms_are_recorded() -> None:
    model = nn.Linear(2, 1)
    training = begin(model, plan())

    def go() -> None:
        for step in training.steps():
            for batch in step:
                with torch.autocast("cpu", torch.bfloat16):
                    losses = ones(model, batch)
                step.backward(losses.float())

    with pytest.raises(SottovoceError, match="autocast"):
        go()
