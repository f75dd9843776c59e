"""Renyi accounting: quick, never below the truth, and independent of the PLD accountant.

It sizes the grid of `pld`, cross-checks it, and accounts what a PLD cannot hold (the discrete
Gaussian, whose Renyi divergence is bounded by that of the continuous one: alpha rho).
"""

import math
from collections.abc import Iterable

from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

from sottovoce.errors import CannotAccount
from sottovoce.privacy.accountants.losses import (
    ConcentratedLoss,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PoissonGaussianLoss,
    PureLoss,
)
from sottovoce.privacy.guarantee import Relation

# Whole orders have a closed form that always converges; fractional ones do not for all q and z.
ORDERS = (*range(2, 33), 40, 48, 64, 96, 128, 256, 512)


def epsilon_of(
    losses: Iterable[tuple[Loss, int]], delta: float, relation: Relation = Relation.ADD_OR_REMOVE
) -> float:
    """An upper bound of epsilon for these losses together.

    >>> round(epsilon_of([(GaussianLoss(1.0), 1)], 1e-5), 2)
    4.75
    """
    accountant = RdpAccountant(orders=ORDERS)
    for loss, count in losses:
        accountant.compose(event_of(loss, relation), count)
    return float(accountant.get_epsilon(delta)) if delta > 0 else math.inf


def event_of(loss: Loss, relation: Relation) -> dp_event.DpEvent:
    match loss:
        case GaussianLoss(mu=mu):
            return dp_event.GaussianDpEvent(1 / mu) if mu else dp_event.NoOpDpEvent()
        case PoissonGaussianLoss(rate=rate, noise_multiplier=noise):
            # Replacing is removing and adding: twice the shift bounds it.
            shift = 2 if relation is Relation.REPLACE_ONE else 1
            return dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise / shift))
        case LaplaceLoss(epsilon=epsilon):
            return dp_event.LaplaceDpEvent(1 / epsilon) if epsilon else dp_event.NoOpDpEvent()
        case PureLoss(epsilon=epsilon):
            # Pure epsilon implies rho = epsilon^2 / 2 (Bun and Steinke 2016).
            return dp_event.ZCDpEvent(epsilon**2 / 2)
        case ConcentratedLoss(rho=rho):
            return dp_event.ZCDpEvent(rho)
        case _:
            raise CannotAccount(f"Renyi accounting has no rule for {type(loss).__name__}.")
