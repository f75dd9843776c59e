"""Everything saved is released: buffers stay as they were, and layers compute what is recorded."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from sottovoce.errors import SottovoceError
from sottovoce.training import Plan, PrivateTraining
from sottovoce.training.checks.neighbours import NeighbourCheck
from sottovoce.training.checks.ownership import Ownership

SIZE = 12
GENERATOR = torch.Generator().manual_seed(3)
X = torch.randn(SIZE, 4, 6, generator=GENERATOR)
Y = torch.randint(0, 2, (SIZE,), generator=GENERATOR)
METHODS = ("dp-sgd", "textbook", "edp-sgd")


def train(
    model: nn.Module,
    method: str = "dp-sgd",
    after: Callable[[nn.Module, int], None] = lambda *_: None,
    public_buffers: tuple[str, ...] = (),
) -> PrivateTraining:
    plan = Plan(population=SIZE, batch_size=SIZE, epochs=3, delta=1e-5, method=method)  # type: ignore[arg-type]
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    training = PrivateTraining(plan, model, optimizer, owners=SIZE, public_buffers=public_buffers)
    for step in training.steps():
        for batch in step:
            scores = model(X[batch])
            step.backward(functional.cross_entropy(scores, Y[batch], reduction="none"))
        after(model, step.number)
    return training


@pytest.fixture
def unprotected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ownership, "check_buffers", lambda self, values=False: None)
    monkeypatch.setattr(NeighbourCheck, "trials", lambda self: iter(()))


class Running(nn.Module):
    """A mean of all inputs, kept for later, in one of many ways."""

    mean: Tensor

    def __init__(self, write: str) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.head = nn.Linear(24, 2)
        self.write = write
        self.extra: list[float] = []
        if write == "frozen parameter":
            self.mean = nn.Parameter(torch.zeros(24), requires_grad=False)
        elif write != "late":
            self.register_buffer("mean", torch.zeros(24))

    def get_extra_state(self) -> list[float]:
        return self.extra

    def set_extra_state(self, state: list[float]) -> None:
        self.extra = state

    def forward(self, x: Tensor) -> Tensor:
        mean = x.flatten(1).mean(0).detach()
        match self.write:
            case "in place":
                self.mean.lerp_(mean, 0.1)
            case "new tensor":
                self.mean = 0.9 * self.mean + 0.1 * mean
            case "data":
                self.mean.data.lerp_(mean, 0.1)
            case "new data":
                self.mean.data = mean
            case "numpy":
                np.copyto(self.mean.numpy(), mean.numpy())
            case "late":
                self.register_buffer("mean", mean)
            case "frozen parameter":
                self.mean.data.copy_(mean)
            case "extra state":
                self.extra = mean.tolist()
        scores: Tensor = self.head(x.flatten(1))
        return scores


WAYS = [
    "in place",
    "new tensor",
    "data",
    "new data",
    "numpy",
    "late",
    "frozen parameter",
    "extra state",
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("write", WAYS)
def test_running_statistics_are_refused(write: str, method: str) -> None:
    with pytest.raises(SottovoceError, match=r"changes in (mean|_extra_state)"):
        train(Running(write), method)


@pytest.mark.usefixtures("unprotected")
@pytest.mark.parametrize("write", WAYS)
def test_unprotected_they_hold_the_raw_mean_beside_a_statement(write: str) -> None:
    model = Running(write)
    assert train(model).guarantee().holds
    mean = X.flatten(1).mean(0)
    state = model.state_dict()
    kept = torch.tensor(state["_extra_state"]) if write == "extra state" else state["mean"]
    assert float(functional.cosine_similarity(kept, mean, 0)) > 0.99


def test_statistics_written_between_steps_are_not_covered_by_the_statement() -> None:
    model = Running("not at all")

    def write(model: nn.Module, step: int) -> None:
        if step == 2:  # after the last step, where no further one would look
            model.mean.copy_(X.flatten(1).mean(0))  # type: ignore[operator]

    guarantee = train(model, after=write).guarantee()
    assert not guarantee.holds
    assert any("mean" in reason for reason in guarantee.reasons)


def test_what_is_declared_public_may_change() -> None:
    assert train(Running("in place"), public_buffers=("mean",)).guarantee().holds


def test_a_resumed_model_has_the_buffers_of_its_checkpoint(tmp_path: Any) -> None:
    """Random features differ in a model that is made anew; the checkpoint's are the right ones."""

    def begin() -> PrivateTraining:
        model = Running("not at all")
        model.mean.copy_(torch.randn(24))
        plan = Plan(population=SIZE, batch_size=SIZE, epochs=3, delta=1e-5)
        return PrivateTraining(
            plan, model, torch.optim.SGD(model.parameters(), lr=0.1), owners=SIZE
        )

    torch.manual_seed(5)
    begin().save(tmp_path / "checkpoint.pt")
    training = begin()
    training.resume(tmp_path / "checkpoint.pt")
    for step in training.steps():
        for batch in step:
            scores = training.model(X[batch])
            step.backward(functional.cross_entropy(scores, Y[batch], reduction="none"))
    assert training.guarantee().holds


def flat(*layers: nn.Module, width: int = 24) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width, 2))


@pytest.mark.parametrize("method", METHODS)
def test_batch_norm_that_wakes_up_later_is_refused(method: str) -> None:
    def wake(model: nn.Module, step: int) -> None:
        model.train()

    norm = nn.BatchNorm1d(4).requires_grad_(False).eval()
    with pytest.raises(SottovoceError, match="BatchNorm1d"):
        train(flat(norm), method, after=wake)


@pytest.mark.parametrize("method", METHODS)
def test_batch_norm_put_in_place_of_another_module_is_refused(method: str) -> None:
    model = flat(nn.Tanh())

    def exchange(_: nn.Module, step: int) -> None:
        model[0] = nn.BatchNorm1d(4, affine=False, track_running_stats=False)

    with pytest.raises(SottovoceError, match="BatchNorm1d"):
        train(model, method, after=exchange)


@pytest.mark.parametrize("method", METHODS)
def test_instance_norm_with_running_statistics_is_refused_or_exact(method: str) -> None:
    norm = nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
    with pytest.raises(SottovoceError, match="track_running_stats"):
        train(flat(norm), method)
    norm.running_mean.fill_(3.0)  # type: ignore[union-attr]
    assert train(flat(norm.eval()), method).guarantee().holds


class OwnConvolution(nn.Conv1d):
    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        scores: Tensor = 3 * super()._conv_forward(input, weight, bias)
        return scores


class OwnLinear(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * 3


class OwnLSTM(nn.LSTM):
    def check_forward_args(self, *args: Any) -> None:  # a helper of its forward pass
        super().check_forward_args(*args)


class OwnEmbedding(nn.Embedding):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) - super().forward(input).mean(0)


class Lookup(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = OwnEmbedding(9, 2)

    def forward(self, x: Tensor) -> Tensor:
        words: Tensor = self.table((x[..., 0] > 0).long())
        return words.mean(1)


OWN: dict[str, Callable[[], nn.Module]] = {
    "convolution": lambda: flat(OwnConvolution(4, 4, 1)),
    "linear": lambda: flat(OwnLinear(6, 6)),
    "lstm": lambda: OwnLSTM(6, 2, batch_first=True),
    "embedding": lambda: Lookup(),
    "spectral norm": lambda: flat(parametrizations.spectral_norm(nn.Linear(6, 6))),
    "weight norm": lambda: flat(parametrizations.weight_norm(nn.Linear(6, 6))),
    "lazy": lambda: flat(nn.LazyLinear(6)),
    "replaced on the instance": lambda: _replaced(),
}


# The neighbour check compares the clipped sums of these with plain backward passes.
EXACT = {"convolution", "linear", "lstm", "weight norm"}


def _replaced() -> nn.Module:
    model = flat(nn.Linear(6, 6))
    layer = model[0]
    plain = layer.forward
    layer.forward = lambda x: plain(x) * 3
    return model


@pytest.mark.parametrize("own", OWN)
def test_layers_that_compute_something_else_are_not_trained_by_a_rule(own: str) -> None:
    """They are refused, or their uses are followed operation by operation, which is exact."""
    try:
        training = train(OWN[own]())
    except SottovoceError:
        return
    assert own in EXACT
    assert training.guarantee().holds


def test_spectral_norm_keeps_statistics_that_textbook_refuses_too() -> None:
    """Its vectors u and v are iterated in every pass. They follow the weights, not the data."""
    model = flat(parametrizations.spectral_norm(nn.Linear(6, 6)))
    with pytest.raises(SottovoceError, match="_u"):
        train(model, "textbook")
    assert train(flat(parametrizations.weight_norm(nn.Linear(6, 6))), "textbook").guarantee().holds


@pytest.mark.parametrize("method", ["textbook", "edp-sgd"])
def test_tables_that_shorten_their_own_rows_are_refused(method: str) -> None:
    """max_norm writes to the rows of the words that were said, without noise."""

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(9, 6, max_norm=0.1), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            scores: Tensor = self.head(self.table((x[..., 0] > 0).long()).mean(1))
            return scores

    with pytest.raises(SottovoceError, match="Expected weights"):
        train(Words(), method)
