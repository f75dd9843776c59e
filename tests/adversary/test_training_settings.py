"""Settings mean what they say: text becomes a choice or is refused, numbers are numbers."""

import math
from collections.abc import Callable
from dataclasses import fields
from enum import StrEnum
from typing import Any

import pytest
import torch
from torch import nn

from sottovoce import _validate
from sottovoce.errors import SottovoceError
from sottovoce.training import ClippingStyle, LayerScales, Method, Plan, PrivateTraining
from sottovoce.training.clipping.styles import AutomaticClipping, FlatClipping, PerLayerClipping

GIVEN: dict[str, Any] = {"population": 40, "batch_size": 8, "epochs": 2, "delta": 1e-5}


def start(plan: Plan, owners: Any = 40, **options: Any) -> PrivateTraining:
    model = nn.Linear(2, 1)
    return PrivateTraining(
        plan, model, torch.optim.SGD(model.parameters(), lr=0.1), owners=owners, **options
    )


def run(plan: Plan) -> PrivateTraining:
    training = start(plan)
    for step in training.steps():
        for batch in step:
            step.backward(training.model(torch.ones(len(batch), 2)).squeeze(1))
    return training


@pytest.mark.parametrize("method", Method)
def test_text_is_the_method_that_it_names(method: Method) -> None:
    plan = Plan(**GIVEN, method=str(method))  # type: ignore[arg-type]
    assert plan == Plan(**GIVEN, method=method)
    assert run(plan).guarantee().holds == (method is not Method.SGD)


def test_compared_as_text_plain_training_would_plan_an_epsilon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The twin: without parsing, `is` recognises nothing, and sgd gets as far as the recipe."""
    monkeypatch.setattr(_validate, "parse_fields", lambda instance: None)
    # Nothing was parsed, and the recipe is the second line of defence.
    with pytest.raises(SottovoceError, match="adds no noise"):
        Plan(**GIVEN, method="sgd").guarantee()  # type: ignore[arg-type]


CHOICES = {
    field.name: field.default for field in fields(Plan) if isinstance(field.default, StrEnum)
}


@pytest.mark.parametrize("name", CHOICES)
def test_what_is_no_choice_is_refused_with_the_list_of_choices(name: str) -> None:
    for value in ("bogus", "", 1, True, b"sgd", ["sgd"]):
        with pytest.raises(SottovoceError, match=f"Expected {name}.*{CHOICES[name]}"):
            Plan(**{**GIVEN, name: value})


@pytest.mark.parametrize("name", CHOICES)
def test_its_own_text_is_a_choice(name: str) -> None:
    chosen = getattr(Plan(**{**GIVEN, name: str(CHOICES[name])}), name)
    assert chosen is CHOICES[name]


def test_everyone_is_not_executed_as_something_else() -> None:
    with pytest.raises(SottovoceError, match="got everyone"):
        Plan(**GIVEN, sampling="everyone")  # type: ignore[arg-type]


def test_a_relation_may_be_text() -> None:
    plan = Plan(**GIVEN, sampling="shuffle", relation="replace-one")  # type: ignore[arg-type]
    assert plan.neighbours == "replace-one"


NUMBERS = [
    field.name for field in fields(Plan) if field.name in (
        "population", "batch_size", "epochs", "delta", "noise_multiplier", "clip_norm",
        "micro_batch", "virtual_batch", "tau", "workers", "alpha_noise_multiplier", "max_alpha",
    )
]  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [True, math.nan, math.inf, -1, "1", 1j])
def test_what_is_no_fitting_number_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SottovoceError, match="Expected"):
        Plan(**{**GIVEN, name: value})


@pytest.mark.parametrize("value", [1e-30, 1e30])
def test_a_clip_norm_that_float32_cannot_carry_is_refused(value: float) -> None:
    """Noise of 1e-45 is rounded away; squares of 1e30 are infinite."""
    with pytest.raises(SottovoceError, match="Expected clip_norm"):
        Plan(**GIVEN, clip_norm=value)


@pytest.mark.parametrize("decay", ["bogus", (1.0,), (1.0, math.nan), (1.0, -1.0), (1.0, True)])
def test_a_decay_that_is_none_is_refused(decay: Any) -> None:
    with pytest.raises(SottovoceError, match="Expected"):
        Plan(**GIVEN, decay=decay)


BAD_SCALES: dict[str, Callable[[], LayerScales]] = {
    "not a number": lambda: LayerScales(("a",), (math.nan,), (0,)),
    "infinite, so that nothing is clipped": lambda: LayerScales(("a",), (math.inf,), (0,)),
    "negative": lambda: LayerScales(("a",), (-1.0,), (0,)),
    "zero": lambda: LayerScales(("a",), (0.0,), (0,)),
    "text": lambda: LayerScales(("a",), ("1",), (0,)),  # type: ignore[arg-type]
    "too few": lambda: LayerScales(("a", "b"), (1.0,), (0,)),
    "of no layer": lambda: LayerScales(("a",), (1.0,), (1,)),
}


@pytest.mark.parametrize("wrong", BAD_SCALES)
def test_wrong_scales_are_refused(wrong: str) -> None:
    with pytest.raises(SottovoceError, match="Expected"):
        BAD_SCALES[wrong]()


@pytest.mark.parametrize("value", [True, math.nan, math.inf, -1.0, 0.0, "1"])
def test_wrong_clip_norms_are_refused(value: Any) -> None:
    for make in (FlatClipping, AutomaticClipping):
        with pytest.raises(SottovoceError, match="Expected clip_norm"):
            make(clip_norm=value)
    with pytest.raises(SottovoceError, match="Expected clip_norms"):
        PerLayerClipping(clip_norms=(1.0, value))


def test_a_number_of_examples_does_not_name_users() -> None:
    """Every example its own user: the user's epsilon would be the example's."""
    plan = Plan(**GIVEN, unit="user")  # type: ignore[arg-type]
    with pytest.raises(SottovoceError, match="the user of every example"):
        start(plan, 40)
    start(plan, [f"user {number % 20}" for number in range(40)])


@pytest.mark.parametrize("owners", [True, -1, 0, "a" * 40, ["ann"] * 40])
def test_owners_that_name_nobody_are_refused(owners: Any) -> None:
    with pytest.raises(SottovoceError, match="Expected"):
        start(Plan(**GIVEN), owners)


def test_every_clipping_style_is_what_it_says() -> None:
    for style in ClippingStyle:
        assert run(Plan(**GIVEN, clipping=str(style))).guarantee().holds  # type: ignore[arg-type]
