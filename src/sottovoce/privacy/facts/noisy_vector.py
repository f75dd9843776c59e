"""The fact of noisy counts: noise on a vector whose change between neighbours is bounded."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants.losses import (
    ConcentratedLoss,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PureLoss,
)
from sottovoce.privacy.facts.fact import LARGEST_SIZE, SMALLEST_SIZE, Fact, checked_size
from sottovoce.privacy.guarantee import Relation


class Noise(StrEnum):
    """The noise distribution."""

    LAPLACE = "laplace"
    DISCRETE_LAPLACE = "discrete-laplace"
    GAUSSIAN = "gaussian"
    DISCRETE_GAUSSIAN = "discrete-gaussian"


@dataclass(frozen=True, kw_only=True)
class NoisyVector(Fact):
    """Noise on a vector whose change between neighbours is bounded: counts, layer norms.

    `sensitivity` is for adding or removing one unit: the L1 norm for Laplace kinds, the L2 norm for
    Gaussian kinds, in the units of `scale`. Under replace-one the sensitivity is twice as large, or
    `replace_sensitivity` if a tighter bound is known.
    """

    noise: Noise
    scale: float
    sensitivity: float
    replace_sensitivity: float | None = None
    sampling_rate: float | None = None

    kind: ClassVar[str] = "noisy-vector"

    def __post_init__(self) -> None:
        super().__post_init__()
        # A tiny scale gives an infinite epsilon; a huge one would underflow to epsilon 0.
        _validate.between("scale", _validate.positive("scale", self.scale), 0, LARGEST_SIZE)
        checked_size("sensitivity", self.sensitivity)
        if self.replace_sensitivity is not None:
            checked_size("replace_sensitivity", self.replace_sensitivity)
        if self.sampling_rate is not None:
            _validate.rate("sampling_rate", self.sampling_rate)
            _validate.between("sampling_rate", self.sampling_rate, SMALLEST_SIZE, 1)
            if self.noise not in (Noise.LAPLACE, Noise.DISCRETE_LAPLACE):
                raise InvalidInput(
                    f"Expected Laplace noise with client sampling, got {self.noise}."
                )

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        sensitivity = self.sensitivity
        if _validate.choice("relation", relation, Relation) is Relation.REPLACE_ONE:
            sensitivity = self.replace_sensitivity or 2 * sensitivity
            if self.sampling_rate is not None:
                # The replaced unit may be sampled in only one of the two runs.
                sensitivity = max(sensitivity, self.sensitivity)
        ratio = sensitivity / self.scale
        if self.sampling_rate is not None and self.sampling_rate < 1:
            return [(PureLoss(amplified(ratio, self.sampling_rate)), 1)]
        match self.noise:
            case Noise.LAPLACE:
                return [(LaplaceLoss(ratio), 1)]
            case Noise.DISCRETE_LAPLACE:
                return [(PureLoss(ratio), 1)]
            case Noise.GAUSSIAN:
                return [(GaussianLoss(ratio), 1)]
            case Noise.DISCRETE_GAUSSIAN:
                return [(ConcentratedLoss(ratio * ratio / 2), 1)]

    def assumptions(self, relation: Relation) -> list[str]:
        stated = super().assumptions(relation)
        if self.sampling_rate is not None and self.sampling_rate < 1:
            stated.append("observers do not learn which clients were sampled")
        if self.noise in (Noise.LAPLACE, Noise.GAUSSIAN):
            stated.append(f"floating-point noise is treated as real-valued {self.noise} noise")
        return stated


def amplified(epsilon: float, rate: float) -> float:
    """The epsilon of a pure mechanism on a Poisson sample of rate `rate` (amplification).

    >>> round(amplified(1.0, 0.1), 6)
    0.158565
    """
    _validate.not_negative("epsilon", epsilon)
    if _validate.rate("rate", rate) == 1:
        return epsilon
    if epsilon > 700:
        # ln(1 - q + q e^epsilon); where q is tiny, both terms matter.
        return max(0.0, float(np.logaddexp(epsilon + math.log(rate), math.log1p(-rate))))
    return math.log1p(rate * math.expm1(epsilon))
