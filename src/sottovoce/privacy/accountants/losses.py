"""The privacy losses that mechanisms cause, as the accountants see them.

A fact (`privacy.facts`) says what ran; a loss says what that can reveal in the worst case between
two neighbours. One loss here is one release; the accountants take them with a count.
"""

import math
from dataclasses import dataclass, fields

from sottovoce import _validate
from sottovoce.errors import InvalidInput


class _Checked:
    """Parameters that are numbers from 0 up; infinity stands for no protection at all."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = _validate.number(field.name, getattr(self, field.name))
            if not value >= 0:
                raise InvalidInput(f"Expected {field.name} >= 0, got {value:g}.")
            object.__setattr__(self, field.name, value)


@dataclass(frozen=True)
class GaussianLoss(_Checked):
    """Gaussian noise without amplification; `mu` is sensitivity over standard deviation."""

    mu: float


@dataclass(frozen=True)
class PoissonGaussianLoss(_Checked):
    """Gaussian noise on a Poisson sample.

    `noise_multiplier` is standard deviation over the norm that one unit adds to the sum; the
    relation decides whether a neighbour lacks that vector or holds another one.
    """

    rate: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.rate("rate", self.rate)
        _validate.positive("noise_multiplier", self.noise_multiplier)


@dataclass(frozen=True)
class GroupLoss(_Checked):
    """Gaussian noise on a Poisson sample, to a group of `size` units that enter independently."""

    rate: float
    noise_multiplier: float
    size: int

    def __post_init__(self) -> None:
        size = _validate.at_least_one("size", self.size)
        super().__post_init__()
        object.__setattr__(self, "size", size)
        _validate.rate("rate", self.rate)
        _validate.positive("noise_multiplier", self.noise_multiplier)


@dataclass(frozen=True)
class LaplaceLoss(_Checked):
    """Laplace noise; `epsilon` is L1 sensitivity over scale."""

    epsilon: float


@dataclass(frozen=True)
class PureLoss(_Checked):
    """Any mechanism with pure epsilon: randomised response, discrete Laplace, exponential."""

    epsilon: float


@dataclass(frozen=True)
class ConcentratedLoss(_Checked):
    """zCDP, for mechanisms whose exact loss depends on the direction (discrete Gaussian)."""

    rho: float


@dataclass(frozen=True)
class ApproximateLoss(_Checked):
    """Only epsilon and delta are known of it (a thresholded histogram)."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.delta(self.delta)


@dataclass(frozen=True)
class TokenLoss(_Checked):
    """One token through M(y|x) = (1-p)[y=x] + p pi(y), at the least likely input.

    The output x speaks for x by `log_ratio` = ln(1 + (1-p)/(p pi)); the output x' speaks against it
    by as much; every other output says nothing.
    """

    replace_probability: float
    smallest_probability: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.probability("replace_probability", self.replace_probability)
        _validate.between("smallest_probability", self.smallest_probability, 0, 0.5)

    @property
    def log_ratio(self) -> float:
        keep, replaced = 1 - self.replace_probability, self.replace_probability
        if keep == 0:
            return 0.0
        likelihood = replaced * self.smallest_probability
        return math.inf if likelihood == 0 else math.log1p(keep / likelihood)


Loss = (
    GaussianLoss
    | PoissonGaussianLoss
    | GroupLoss
    | LaplaceLoss
    | PureLoss
    | ConcentratedLoss
    | ApproximateLoss
    | TokenLoss
)


def dominates(worse: Loss, other: Loss) -> bool:
    """Whether `worse` reveals at least as much as `other` at every epsilon; False if unknown."""
    match worse, other:
        case GaussianLoss(mu=a), GaussianLoss(mu=b):
            return a >= b
        case PoissonGaussianLoss(), PoissonGaussianLoss():
            return worse.rate >= other.rate and worse.noise_multiplier <= other.noise_multiplier
        case GroupLoss(), GroupLoss():
            return (
                worse.size >= other.size
                and worse.rate >= other.rate
                and worse.noise_multiplier <= other.noise_multiplier
            )
        case LaplaceLoss(epsilon=a), LaplaceLoss(epsilon=b):
            return a >= b
        case PureLoss(epsilon=a), PureLoss(epsilon=b) | LaplaceLoss(epsilon=b):
            return a >= b
        case ConcentratedLoss(rho=a), ConcentratedLoss(rho=b):
            return a >= b
        case ApproximateLoss(), ApproximateLoss():
            return worse.epsilon >= other.epsilon and worse.delta >= other.delta
        case TokenLoss(), TokenLoss():
            return (
                worse.replace_probability <= other.replace_probability
                and worse.smallest_probability <= other.smallest_probability
            )
        case _:
            return False
