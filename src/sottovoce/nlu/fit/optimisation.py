"""Optimiser, learning-rate schedule and weight averaging.

The learning rate is a function of the step number, so resuming needs no scheduler state.
"""

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from torch.optim import SGD, Adam, Optimizer

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.nlu.model import JointModel


class OptimizerName(StrEnum):
    ADAM = "adam"
    SGD = "sgd"


class Schedule(StrEnum):
    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"

    def factor(self, part: float) -> float:
        """Factor of the learning rate after the fraction `part` of the steps.

        >>> [Schedule.LINEAR.factor(part) for part in (0.0, 0.5, 1.0)]
        [1.0, 0.5, 0.0]
        """
        match self:
            case Schedule.CONSTANT:
                return 1.0
            case Schedule.LINEAR:
                return 1 - part
            case Schedule.COSINE:
                return (1 + math.cos(math.pi * part)) / 2


@dataclass(frozen=True, kw_only=True)
class Optimisation:
    """Optimiser settings; none of them affects the guarantee.

    `encoder_rate` multiplies the learning rate of the encoder's weights, `warmup` is the fraction
    of steps with a linear warm-up, `averaged` the last fraction of steps whose iterates are
    averaged.
    """

    learning_rate: float = 1e-3
    encoder_rate: float = 1.0
    optimizer: OptimizerName = OptimizerName.ADAM
    schedule: Schedule = Schedule.LINEAR
    warmup: float = 0.0
    averaged: float = 0.0

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        _validate.positive("learning_rate", self.learning_rate)
        _validate.positive("encoder_rate", self.encoder_rate)
        for name in ("warmup", "averaged"):
            if not 0 <= getattr(self, name) < 1:
                raise InvalidInput(f"Expected {name} from 0 to below 1, got {getattr(self, name)}.")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def optimizer_of(self, model: JointModel) -> Optimizer:
        """An optimiser of all trainable parameters."""
        encoder = [each for each in model.encoder.parameters() if each.requires_grad]
        inside = {id(each) for each in encoder}
        heads = [p for p in model.parameters() if p.requires_grad and id(p) not in inside]
        groups: list[dict[str, Any]] = [{"params": heads, "factor": 1.0}]
        if encoder:
            groups.append({"params": encoder, "factor": self.encoder_rate})
        kind = Adam if self.optimizer is OptimizerName.ADAM else SGD
        return kind(groups, lr=self.learning_rate)

    def set_rate(self, optimizer: Optimizer, step: int, steps: int) -> None:
        """Set the learning rate of `step`, counted from 0."""
        begun = 1.0 if self.warmup == 0 else min(1.0, (step + 1) / (self.warmup * steps))
        rate = self.learning_rate * begun * self.schedule.factor(step / steps)
        for group in optimizer.param_groups:
            group["lr"] = rate * group["factor"]
