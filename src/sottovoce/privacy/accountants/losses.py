"""The privacy losses that mechanisms cause, as the accountants see them.

A fact (`privacy.facts`) says what ran; a loss says what that can reveal in the worst case between
two neighbours. One loss here is one release; the accountants take them with a count.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class GaussianLoss:
    """Gaussian noise without amplification; `mu` is sensitivity over standard deviation."""

    mu: float


@dataclass(frozen=True)
class PoissonGaussianLoss:
    """Gaussian noise on a Poisson sample.

    `noise_multiplier` is standard deviation over the norm that one unit adds to the sum; the
    relation decides whether a neighbour lacks that vector or holds another one.
    """

    rate: float
    noise_multiplier: float


@dataclass(frozen=True)
class LaplaceLoss:
    """Laplace noise; `epsilon` is L1 sensitivity over scale."""

    epsilon: float


@dataclass(frozen=True)
class PureLoss:
    """Any mechanism with pure epsilon: randomised response, discrete Laplace, exponential."""

    epsilon: float


@dataclass(frozen=True)
class ConcentratedLoss:
    """zCDP, for mechanisms whose exact loss depends on the direction (discrete Gaussian)."""

    rho: float


@dataclass(frozen=True)
class ApproximateLoss:
    """Only epsilon and delta are known of it (a thresholded histogram)."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class TokenLoss:
    """One token through M(y|x) = (1-p)[y=x] + p pi(y), at the least likely input.

    The output x speaks for x by `log_ratio` = ln(1 + (1-p)/(p pi)); the output x' speaks against it
    by as much; every other output says nothing.
    """

    replace_probability: float
    smallest_probability: float

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
