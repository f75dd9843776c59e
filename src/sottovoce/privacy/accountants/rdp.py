"""Renyi accounting: a fast upper bound, independent of the PLD accountant.

It cross-checks `pld`, accounts mechanisms without a PLD (the discrete Gaussian, whose Renyi
divergence is bounded by that of the continuous one: alpha rho), and is used where delta is below
the rounding errors of a PLD: sums of divergences lose no precision.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp
from scipy.stats import binom

from sottovoce import _validate
from sottovoce.errors import CannotAccount
from sottovoce.privacy.accountants.losses import (
    ConcentratedLoss,
    GaussianLoss,
    GroupLoss,
    LaplaceLoss,
    Loss,
    PoissonGaussianLoss,
    PureLoss,
    TokenLoss,
)
from sottovoce.privacy.guarantee import Relation

# Large epsilons need orders near 1; small epsilons at a very small delta need large orders.
ORDERS = np.array(
    [*(1 + 2.0 ** -np.arange(8, 0, -1)), *range(2, 65), *(2**k for k in range(7, 14))],
    dtype=np.float64,
)
# Covers the rounding error in the logarithm of a moment close to 1.
_ROUNDING = 1e-14

_Array = NDArray[np.float64]


def epsilon_of(
    losses: Iterable[tuple[Loss, int]], delta: float, relation: Relation = Relation.ADD_OR_REMOVE
) -> float:
    """An upper bound on the epsilon of the composed losses.

    >>> round(epsilon_of([(GaussianLoss(1.0), 1)], 1e-5), 2)
    4.75
    """
    if delta <= 0:
        return math.inf
    total = np.zeros(len(ORDERS))
    for loss, count in losses:
        total += count * divergences(loss, relation)
    # Canonne, Kamath and Steinke 2020, proposition 12.
    epsilons = total + np.log1p(-1 / ORDERS) - np.log(delta * ORDERS) / (ORDERS - 1)
    return max(0.0, float(np.min(epsilons)))


def divergences(
    loss: Loss, relation: Relation = Relation.ADD_OR_REMOVE, orders: _Array = ORDERS
) -> _Array:
    """An upper bound on the Renyi divergence between neighbours, at every order."""
    relation = _validate.choice("relation", relation, Relation)
    match loss:
        case GaussianLoss(mu=mu):
            return orders * mu**2 / 2
        case PoissonGaussianLoss(rate=rate, noise_multiplier=noise):
            return _sampled(rate, noise, relation, orders)
        case GroupLoss():
            return _of_group(loss, relation, orders)
        case LaplaceLoss(epsilon=epsilon):
            # Outputs outside both centres, and between them (Mironov 2017).
            twice = 2 * orders - 1
            sides = np.log(orders / twice) + (orders - 1) * epsilon
            between = np.log((orders - 1) / twice) - orders * epsilon
            log_moment = np.logaddexp(sides, between) + _ROUNDING
            laplace: _Array = np.minimum(log_moment / (orders - 1), _of_pure(epsilon, orders))
            return laplace
        case PureLoss(epsilon=epsilon):
            return _of_pure(epsilon, orders)
        case TokenLoss():
            return _of_token(loss, orders)
        case ConcentratedLoss(rho=rho):
            return orders * rho
        case _:
            raise CannotAccount(
                f"Expected a loss with a known Renyi divergence, got {type(loss).__name__}."
            )


def _of_pure(epsilon: float, orders: _Array) -> _Array:
    """Pure epsilon implies rho = epsilon^2 / 2 (Bun and Steinke 2016)."""
    return np.minimum(orders * epsilon * epsilon / 2, epsilon)


def _of_token(loss: TokenLoss, orders: _Array) -> _Array:
    """From the three outputs: the token itself, the neighbour's, any other."""
    ratio = loss.log_ratio
    if ratio == 0 or math.isinf(ratio):
        return np.full(len(orders), ratio)
    other = loss.replace_probability * loss.smallest_probability
    rest = max(0.0, loss.replace_probability - 2 * other)
    exponents = [orders * ratio, (1 - orders) * ratio]
    log_moment = np.logaddexp.reduce([math.log(other) + each for each in exponents])
    if rest:
        log_moment = np.logaddexp(log_moment, math.log(rest))
    found: _Array = np.minimum((log_moment + _ROUNDING) / (orders - 1), _of_pure(ratio, orders))
    return found


def _sampled(rate: float, noise: float, relation: Relation, orders: _Array) -> _Array:
    """The Gaussian on a Poisson sample (Mironov, Talwar and Zhang 2019)."""
    # Integer orders have a sum without cancellation. Divergence increases with the order, so round
    # fractional orders up.
    replacing = relation is Relation.REPLACE_ONE
    found = np.empty(len(orders))
    for place, order in enumerate(np.ceil(orders)):
        log_moment = _log_moment(rate, noise / 2 if replacing else noise, int(order)) + _ROUNDING
        if replacing:
            # Replacing changes the sum by up to twice the norm. Its privacy profile is at most that
            # of adding a unit of twice the norm, in both directions: double the excess over 1.
            log_moment += math.log(2 - math.exp(-log_moment))
        found[place] = log_moment / (order - 1)
    return found


def _log_moment(rate: float, noise: float, order: int) -> float:
    k = np.arange(order + 1)
    kept = math.log1p(-rate) if rate < 1 else -math.inf
    with np.errstate(invalid="ignore"):
        others = np.where(k < order, (order - k) * kept, 0.0)
    terms = (
        gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        + k * math.log(rate) + others + k * (k - 1) / (2 * noise**2)
    )  # fmt: skip
    # The moment is at least 1; add the error of gammaln at large orders.
    lost = 4e-16 * float(gammaln(order + 1))
    return max(0.0, float(logsumexp(terms))) + lost


def _of_group(loss: GroupLoss, relation: Relation, orders: _Array) -> _Array:
    """As if the number of sampled units of the group were public (joint convexity)."""
    shift = (2 if relation is Relation.REPLACE_ONE else 1) / loss.noise_multiplier
    k = np.arange(loss.size + 1)
    log_weights = binom.logpmf(k, loss.size, loss.rate)
    return np.array(
        [
            (float(logsumexp(log_weights + a * (a - 1) * (k * shift) ** 2 / 2)) + _ROUNDING)
            / (a - 1)
            for a in orders
        ]
    )
