"""Privacy losses of mechanisms, the input of the accountants.

A fact (`privacy.facts`) describes what was executed; a loss, what it reveals in the worst case
between two neighbours. One loss is one release; accountants take losses with counts.

For a group of K units, noise on a sum has K times the sensitivity, and a mechanism known only by
its epsilon counts once per unit.
"""

import math
from dataclasses import dataclass, fields

from sottovoce import _validate
from sottovoce.errors import InvalidInput


class _Checked:
    """Checks that all parameters are numbers >= 0; infinity means no protection."""

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

    `noise_multiplier` is standard deviation over the norm of one unit's contribution; the relation
    decides whether a neighbour lacks the contribution or has a different one.
    """

    rate: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.rate("rate", self.rate)
        _validate.positive("noise_multiplier", self.noise_multiplier)


@dataclass(frozen=True)
class GroupLoss(_Checked):
    """Gaussian noise on a Poisson sample, for a group of `size` independently sampled units."""

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
    """A mechanism known only by its epsilon and delta (a thresholded histogram)."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.delta(self.delta)


@dataclass(frozen=True)
class TokenLoss(_Checked):
    """One token through M(y|x) = (1-p)[y=x] + p pi(y), at the least likely input.

    Between the inputs x and x', the output x has the loss `log_ratio` = ln(1 + (1-p)/(p pi)), the
    output x' has the loss -`log_ratio`, and every other output has the loss 0.
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


def of_group(loss: Loss, size: int) -> tuple[Loss, int]:
    """The loss of a release for a group of `size` units, and its count.

    >>> of_group(GaussianLoss(0.5), 4)
    (GaussianLoss(mu=2.0), 1)
    """
    if size == 1:
        return loss, 1
    match loss:
        case GaussianLoss(mu=mu):
            return GaussianLoss(size * mu), 1
        case PoissonGaussianLoss(rate=rate, noise_multiplier=noise):
            return GroupLoss(rate, noise, size), 1
        case GroupLoss(rate=rate, noise_multiplier=noise, size=smaller):
            return GroupLoss(rate, noise, size * smaller), 1
        case LaplaceLoss(epsilon=epsilon):
            return LaplaceLoss(size * epsilon), 1
        case PureLoss(epsilon=epsilon):
            return PureLoss(size * epsilon), 1
        case ConcentratedLoss(rho=rho):
            return ConcentratedLoss(size**2 * rho), 1
        case ApproximateLoss(epsilon=epsilon, delta=delta):
            return _approximate(epsilon, delta, size), 1
        case TokenLoss():
            return loss, size  # the tokens of each unit are replaced independently


def _approximate(epsilon: float, delta: float, size: int) -> Loss:
    """(K epsilon, (1 + e^epsilon + ... + e^((K-1) epsilon)) delta), by a chain of K neighbours."""
    # Bound the sum by K e^((K-1) epsilon), in logarithms, because it may overflow.
    log_delta = math.log(size) + (size - 1) * epsilon + math.log(delta) if delta else -math.inf
    if log_delta >= 0:
        return PureLoss(math.inf)
    return ApproximateLoss(size * epsilon, math.exp(log_delta))
