"""What one release can reveal of a group of K units, from what it can reveal of one.

Noise on a sum or a vector is told apart by how far the sum moves: K units move it K times as far.
What is known by epsilon alone is lost once for every unit of the group.
"""

import math

from sottovoce.privacy.accountants.losses import (
    ApproximateLoss,
    ConcentratedLoss,
    GaussianLoss,
    GroupLoss,
    LaplaceLoss,
    Loss,
    PoissonGaussianLoss,
    PureLoss,
    TokenLoss,
)


def of_group(loss: Loss, size: int) -> tuple[Loss, int]:
    """The loss of a release to a group of `size` units, and how often it counts.

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
            return loss, size  # the tokens of every unit are replaced by themselves


def _approximate(epsilon: float, delta: float, size: int) -> Loss:
    """(K epsilon, (1 + e^epsilon + ... + e^((K-1) epsilon)) delta), one neighbour after another."""
    # K terms of at most e^((K-1) epsilon) each, in logarithms: the sum itself may overflow.
    log_delta = math.log(size) + (size - 1) * epsilon + math.log(delta) if delta else -math.inf
    if log_delta >= 0:
        return PureLoss(math.inf)
    return ApproximateLoss(size * epsilon, math.exp(log_delta))
