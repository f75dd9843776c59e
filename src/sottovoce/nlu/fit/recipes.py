"""Default hyperparameters for each model and method.

The noise of a step does not depend on the batch size, so the private recipes use large Poisson
samples, freeze most of a pretrained encoder, and average the last iterates. They were chosen on
validation data of public corpora (see docs/reproductions/intents-and-slots.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from sottovoce import _validate
from sottovoce.nlu.encoders import ENCODERS
from sottovoce.nlu.encoders.bert import Summary
from sottovoce.nlu.encoders.whitening import ReadoutPlan, Whitening
from sottovoce.nlu.fit.optimisation import OptimizerName, Schedule
from sottovoce.training import ClippingStyle, Method


class ModelKind(StrEnum):
    """The two models of the paper; others are in `ENCODERS`."""

    CLC = "clc"
    BERT = "bert"


_PLAIN: dict[str, Any] = {
    "batch_size": 32,
    "epochs": 10,
    "clip_norm": 1.0,
    "clipping": ClippingStyle.FLAT,
    "learning_rate": 1e-3,
    "encoder_rate": 1.0,
    "optimizer": OptimizerName.ADAM,
    "schedule": Schedule.LINEAR,
    "averaged": 0.0,
}
_PRIVATE = {name: value for name, value in _PLAIN.items() if name != "batch_size"} | {
    "sampling_rate": 0.2,
    "epochs": 30,
    "clip_norm": 0.5,
    "learning_rate": 2e-3,
    "averaged": 0.5,
}

QUICK: Mapping[str, Any] = MappingProxyType(
    {
        "model": ModelKind.CLC,
        "vocabulary": "hashed-2000",
        "hidden": 48,
        "layers": 1,
        "word_width": 48,
        "epochs": 8,
    }
)
"""Settings for a first look: a small CLC, trained for a few epochs. Its error rates do not predict
those of the default model."""
QUICK_NOTE = "a quick look: a small model, trained for a few passes; train without quick for use"


def is_quick(asked: Mapping[str, Any]) -> bool:
    """Whether these are the settings of `quick=True`."""
    return all(asked.get(name) == value for name, value in QUICK.items())


def default_recipe(model: str, method: Method) -> Mapping[str, Any]:
    """Default settings of a model and a method.

    >>> default_recipe(ModelKind.BERT, Method.DP_SGD)["tuning"]
    'frozen'
    """
    ENCODERS.require(model)
    method = _validate.choice("method", method, Method)
    private = method in (Method.DP_SGD, Method.TEXTBOOK)
    recipe = dict(_PRIVATE if private else _PLAIN)
    if model == ModelKind.BERT:
        recipe["tuning"] = "frozen" if private else "full"
        # The heads read vectors of unit length, so their weights have to become large.
        recipe["learning_rate"] = 0.07 if private else 3e-4
        if private:
            # Four times as many steps of a quarter of the size: about the same total noise, and
            # later steps can correct earlier ones.
            recipe["sampling_rate"] = 0.05
    return MappingProxyType(recipe)


@dataclass(frozen=True, kw_only=True)
class ReadoutRecipe:
    """Which layers of a BERT encoder the heads read, and how."""

    layers: tuple[int, ...] = (-1,)
    summary: Summary = "mean"
    plan: ReadoutPlan = field(default_factory=ReadoutPlan)


def readout_recipe(tuning: str | None) -> ReadoutRecipe:
    """Several whitened layers of a frozen encoder, or the last layer of a trained one."""
    if tuning == "frozen":
        return ReadoutRecipe(
            layers=(1, 3, 5, 6),
            plan=ReadoutPlan(
                whitening=Whitening.WHITEN,
                components=384,
                summary_components=512,
                neighbours=128,
                unit=True,
                window=1,
            ),
        )
    return ReadoutRecipe()
