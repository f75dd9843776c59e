"""Models rejected before the first step, with names and remedies."""

import pytest
import torch
from torch import Tensor, nn

from sottovoce.errors import InvalidInput
from sottovoce.training.clipping.bookkeeping import BookKeeper
from sottovoce.training.errors import UnsupportedLayer


def reasons(model: nn.Module) -> dict[str, str]:
    with pytest.raises(UnsupportedLayer) as refusal:
        BookKeeper(model)
    for name in refusal.value.reasons:
        assert name in str(refusal.value)
    return refusal.value.reasons


class Shifted(nn.Module):
    def __init__(self, shift: nn.Parameter | None = None) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 3)
        self.shift = nn.Parameter(torch.zeros(3)) if shift is None else shift

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.inner(x) + self.shift
        return outputs


def test_a_parameter_without_a_rule_is_followed() -> None:
    assert BookKeeper(nn.Sequential(Shifted(), nn.Linear(3, 1))).layer_names == (
        "0", "0.inner", "1",
    )  # fmt: skip


def test_frozen_it_needs_none() -> None:
    model = Shifted()
    model.shift.requires_grad_(False)
    assert BookKeeper(model).layer_names == ("inner",)


def test_all_problems_are_reported_together() -> None:
    lazy = nn.LazyLinear(3)
    found = reasons(nn.Sequential(Shifted(), nn.BatchNorm1d(3), lazy))
    assert list(found) == ["1", "2.weight", "2.bias"]


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm])
def test_batch_norm(kind: type[nn.Module]) -> None:
    found = reasons(nn.Sequential(nn.Linear(2, 3), kind(3)))
    assert "GroupNorm or LayerNorm" in found["1"]


def test_batch_norm_may_sleep() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model[1].requires_grad_(False).eval()
    keeper = BookKeeper(model)
    with keeper.record():
        keeper.backward(model(torch.randn(4, 2)).sum(1))
    model.train()
    with pytest.raises(InvalidInput, match="GroupNorm or LayerNorm"), keeper.record():
        pass


def test_running_statistics() -> None:
    found = reasons(nn.Sequential(nn.InstanceNorm1d(3, track_running_stats=True)))
    assert "track_running_stats=False" in found["0"]


def test_compiled_modules() -> None:
    compiled = torch.compile(nn.Linear(2, 2), backend="eager")
    assert isinstance(compiled, nn.Module)
    assert "torch.compile" in reasons(compiled)["OptimizedModule"]
    in_place = nn.Linear(2, 2)
    in_place.compile(backend="eager")
    assert "torch.compile" in reasons(in_place)["Linear"]


def test_a_replaced_forward() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].forward = lambda x: x
    assert "restore it" in reasons(model)["0"]


def test_shapes_that_are_not_known_yet() -> None:
    assert "run the model once" in reasons(nn.Sequential(nn.LazyLinear(3)))["0.weight"]


def test_freezing_afterwards_is_noticed() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    keeper = BookKeeper(model)
    model[0].bias.requires_grad_(True)
    with pytest.raises(InvalidInput, match=r"changes in 0\.bias"), keeper.record():
        pass
