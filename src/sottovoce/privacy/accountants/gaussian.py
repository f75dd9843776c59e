"""The Gaussian mechanism: exactly without amplification, and as a privacy loss distribution with
it.

A release has mu = sensitivity / standard deviation. Amplification is by Poisson sampling.
"""

import math
from collections.abc import Iterable

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr, ndtr, ndtri_exp

_SMALLEST_MU = 1e-9


def compose(mus: Iterable[float]) -> float:
    """The mu of composed releases: sqrt(sum mu_t^2).

    >>> compose([3.0, 4.0])
    5.0
    """
    return math.hypot(*mus)


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest delta at which a release with this mu satisfies epsilon.

    A release satisfies (epsilon, delta) if and only if (Balle and Wang 2018)

        delta >= Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

    >>> round(delta_of(1.0, 3.0), 8)
    0.00153719
    """
    return _delta_at(epsilon / mu - mu / 2, mu) if mu > 0 else 0.0


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon at which a release with this mu satisfies delta.

    >>> round(epsilon_of(1.0, 1e-5), 6)
    4.377178
    """
    if mu == 0:
        return 0.0
    if delta == 0 or math.isinf(mu):
        return math.inf
    if mu < _SMALLEST_MU:
        # The two terms cancel completely. The total variation is below mu / sqrt(2 pi), and the
        # first term alone bounds delta from above.
        if mu <= math.sqrt(2 * math.pi) * delta:
            return 0.0
        return mu * (max(0.0, float(-ndtri_exp(math.log(delta)))) + mu / 2)
    lowest = -mu / 2  # epsilon = 0
    if _delta_at(lowest, mu) <= delta:
        return 0.0
    # At `highest` the first term, Phi(-a), an upper bound of delta(a), is already below delta.
    highest = max(math.sqrt(-2 * math.log(delta)), lowest) + 1
    a: float = brentq(
        lambda a: _delta_at(a, mu) - delta, lowest, highest, xtol=1e-14, rtol=1e-15, maxiter=500
    )
    return mu * (a + mu / 2)


def _delta_at(a: float, mu: float) -> float:
    """Delta at a = epsilon/mu - mu/2.

    In terms of a, the second term in `delta_of` is phi(a) times Mills' ratio of a + mu, which
    neither overflows nor cancels: it is accurate from epsilon 1e-6 to 1e25.
    """
    log_density = -a * a / 2
    mills = erfcx((a + mu) / math.sqrt(2)) / 2  # times phi(a) sqrt(2 pi) below
    return float(math.exp(log_ndtr(-a)) - math.exp(log_density) * mills)


# Beyond this many standard deviations (mass 1e-23) losses count as infinite.
_REACH = 10.0

_Array = NDArray[np.float64]


def loss_distribution(
    rate: float, noise_multiplier: float, width: float
) -> PrivacyLossDistribution:
    """The privacy loss distribution of one release on a Poisson sample, for add-or-remove.

    With P = (1-q) N(0, z^2) + q N(-1, z^2) and Q = N(0, z^2), removing a unit turns P into Q and
    adding one turns Q into P. Both hockey-stick divergences are closed forms in the normal
    distribution function, evaluated here on a whole grid at once (dp-accounting evaluates one point
    at a time) and passed to its pessimistic connect-the-dots construction.
    """
    return PrivacyLossDistribution(
        _on_grid(rate, noise_multiplier, width, removed=True),
        _on_grid(rate, noise_multiplier, width, removed=False),
    )


def removing_delta(epsilons: _Array, rate: float, noise: float) -> _Array:
    """The hockey-stick divergence of P from Q at each epsilon."""
    # The loss at x is ln(1 - q + q e^((-2x-1)/(2 z^2))): it exceeds epsilon left of `edge`.
    informative = epsilons > math.log1p(-rate) if rate < 1 else np.full(epsilons.shape, True)
    epsilon = epsilons[informative]
    edge = -(noise**2) * (log_of_excess(epsilon, rate) - math.log(rate)) - 0.5
    without, with_it = ndtr(edge / noise), ndtr((edge + 1) / noise)
    deltas = -np.expm1(np.minimum(epsilons, 0.0))
    deltas[informative] = (
        (1 - rate) * without + rate * with_it - np.exp(epsilon + log_ndtr(edge / noise))
    )
    return np.clip(deltas, 0.0, 1.0)


def adding_delta(epsilons: _Array, rate: float, noise: float) -> _Array:
    """The hockey-stick divergence of Q from P at each epsilon; zero for epsilon >= -ln(1-q)."""
    informative = epsilons < -math.log1p(-rate) if rate < 1 else np.full(epsilons.shape, True)
    epsilon = epsilons[informative]
    # The loss at x is -ln(1 - q + q e^((2x-1)/(2 z^2))): it exceeds epsilon left of `edge`.
    edge = 0.5 + noise**2 * (log_of_excess(-epsilon, rate) - math.log(rate))
    deltas = np.zeros(epsilons.shape)
    deltas[informative] = ndtr(edge / noise) - rate * np.exp(epsilon + log_ndtr((edge - 1) / noise))
    if rate < 1:  # at rate 1 the factor is 0, and the exponential may be infinite
        deltas[informative] -= (1 - rate) * np.exp(epsilon + log_ndtr(edge / noise))
    return np.clip(deltas, 0.0, 1.0)


def log_of_excess(epsilon: _Array, rate: float) -> _Array:
    """ln(e^epsilon - (1 - q)) without overflow, and without cancellation near ln(1 - q)."""
    small = epsilon < 1
    excess = np.empty(epsilon.shape)
    excess[small] = np.log(np.maximum(np.expm1(epsilon[small]) + rate, 1e-320))
    excess[~small] = epsilon[~small] + np.log1p(-(1 - rate) * np.exp(-epsilon[~small]))
    return excess


def _on_grid(rate: float, noise: float, width: float, *, removed: bool) -> pld_pmf.PLDPmf:
    def removal_loss(x: float) -> float:
        exponent = (-2 * x - 1) / (2 * noise**2)
        return float(
            np.logaddexp(np.log1p(-rate) if rate < 1 else -np.inf, np.log(rate) + exponent)
        )

    extremes = removal_loss(_REACH * noise), removal_loss(-1 - _REACH * noise)
    if removed:
        lowest, highest, delta = *extremes, removing_delta
    else:
        lowest, highest, delta = -extremes[1], -extremes[0], adding_delta
    first, last = math.floor(lowest / width), math.ceil(highest / width)
    grid = width * np.arange(first, last + 1, dtype=np.float64)
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        width, first, last, delta(grid, rate, noise)
    )
