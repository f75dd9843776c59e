"""A plan that was calibrated to an epsilon never executes a larger one, whatever its scales."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from sottovoce.errors import InvalidInput
from sottovoce.privacy.recipes.training import TrainingRecipe
from sottovoce.training import LayerScales, Plan, PrivateTraining

SIZE = 40
X = torch.randn(SIZE, 6, generator=torch.Generator().manual_seed(2))
Y = torch.arange(SIZE) % 2
BASE: dict[str, Any] = {"population": SIZE, "batch_size": 10, "epochs": 2, "delta": 1e-4}
EDP = {**BASE, "method": "edp-sgd", "workers": 2}
SETTINGS = [
    *({**BASE, "method": method} for method in ("dp-sgd", "textbook")),
    {**BASE, "micro_batch": 2},
    {**BASE, "decay": "linear", "tau": 0.5},
    EDP,
    {**EDP, "alpha_source": "shapes"},
    {**EDP, "alpha_source": "shapes", "noise_shape": "isotropic"},
    {**EDP, "alpha_source": "dp"},
    {**EDP, "alpha_source": "dp", "noise_shape": "isotropic", "max_alpha": 3.0},
    {**EDP, "alpha_source": "dp", "noise_shape": "isotropic", "max_alpha": 0.3},
]


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))


def executed(plan: Plan, network: nn.Module, scales: LayerScales | None) -> float:
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    training = PrivateTraining(plan, network, optimizer, owners=SIZE, scales=scales)
    for step in training.steps():
        for batch in step:
            step.backward(cross_entropy(network(X[batch]), Y[batch], reduction="none"))
    return training.guarantee().epsilon


@pytest.mark.parametrize("sampling", ["poisson", "shuffle"])
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: " ".join(map(str, s.values())))
def test_what_was_calibrated_is_what_runs(settings: dict[str, Any], sampling: str) -> None:
    network = model()
    by_shape = settings.get("alpha_source") == "shapes"
    scales = LayerScales.from_shapes(network) if by_shape else None
    plan = Plan(**settings | {"sampling": sampling}).calibrate(epsilon=3, scales=scales)
    assert executed(plan, network, scales) <= 3 + 1e-9


@pytest.mark.parametrize("source", ["shapes", "dp"])
def test_isotropic_noise_without_known_scales_is_not_calibrated(source: str) -> None:
    plan = Plan(**EDP, alpha_source=source, noise_shape="isotropic")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="scales are not known"):
        plan.calibrate(epsilon=3)


def test_twin_with_scales_of_one_in_the_plan_more_is_executed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = model()
    scales = LayerScales.from_shapes(network)
    plan = Plan(**EDP, alpha_source="shapes", noise_shape="isotropic")  # type: ignore[arg-type]
    recipe = Plan.recipe

    def naive(self: Plan, alpha: tuple[float, ...] | None = None) -> TrainingRecipe:
        return recipe(self, (1.0,))

    with monkeypatch.context() as patch:
        patch.setattr(Plan, "recipe", naive)
        calibrated = plan.calibrate(epsilon=3, scales=scales)
    assert executed(calibrated, network, scales) > 3.5


def test_scales_above_the_bound_of_the_plan_are_refused() -> None:
    network = model()
    scales = LayerScales.from_shapes(network)
    largest = max(scales.alpha)
    plan = Plan(**EDP | {"alpha_source": "shapes", "max_alpha": largest * 0.9})
    with pytest.raises(InvalidInput, match="max_alpha"):
        executed(plan, network, scales)


def test_twin_without_the_cut_a_bounded_plan_executes_more(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded = {"alpha_source": "dp", "noise_shape": "isotropic", "max_alpha": 0.3}
    plan = Plan(**EDP | bounded).calibrate(epsilon=3)
    monkeypatch.setattr(LayerScales, "at_most", lambda self, limit: self)
    assert executed(plan, model(), None) > 6
