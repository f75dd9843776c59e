"""The privacy loss distribution of a Gaussian release on a Poisson sample, for a group of K units.

The units of a group are sampled independently, so the number k of sampled units is Binomial(K, q),
and they change the sum by at most k norms. Adding or removing the group is
dominated by the pair P = sum_k p_k N(k, z^2) and Q = N(0, z^2) (Schuchardt et al. 2024;
Choquette-Choo et al. 2023). Replacing the group does not change samples without any of its units.
Advanced joint convexity (Balle, Barthe and Gaboardi 2018) removes these samples, of probability
1 - q'; in the others k is the same on both sides. So for epsilon >= 0
    delta(epsilon) <= sum_(k>=1) p_k delta_k(epsilon'),   e^epsilon' = 1 + (e^epsilon - 1) / q',
where delta_k is that of the Gaussian mechanism with mu = 2k / z.
"""

import math

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp, ndtr
from scipy.stats import binom

from sottovoce.privacy.accountants.gaussian import log_of_excess
from sottovoce.privacy.accountants.losses import GroupLoss

# Samples with so many units of a group that their probability is below this count as revealed.
_NEGLIGIBLE = 1e-20
# Beyond this many standard deviations (mass 1e-23) losses count as infinite.
_REACH = 10.0
_PRECISION = 1e-14

_Array = NDArray[np.float64]


def weights(loss: GroupLoss) -> tuple[_Array, float]:
    """The probabilities of 0, 1, ... units in a sample, and the truncated tail probability."""
    most = int(min(loss.size, binom.isf(_NEGLIGIBLE, loss.size, loss.rate) + 1))
    cut = float(binom.sf(most, loss.size, loss.rate)) if most < loss.size else 0.0
    return binom.pmf(np.arange(most + 1), loss.size, loss.rate), cut


def _sampled_probability(loss: GroupLoss) -> float:
    """The probability that a sample contains any unit of the group, in full precision."""
    return -math.expm1(_log_none(loss))


def _log_none(loss: GroupLoss) -> float:
    return loss.size * math.log1p(-loss.rate) if loss.rate < 1 else -math.inf


def components(loss: GroupLoss) -> int:
    return len(weights(loss)[0])


def range_of(loss: GroupLoss) -> float:
    """The approximate range of the losses, for either relation."""
    farthest = 2 * components(loss) / loss.noise_multiplier
    return farthest**2 / 2 + 2 * _REACH * farthest


def loss_distribution(loss: GroupLoss, width: float) -> PrivacyLossDistribution:
    """The distribution for adding or removing the group, on a grid of the given width."""
    p, _ = weights(loss)
    shift = 1 / loss.noise_multiplier
    lowest = _log_mixture(np.array([-_REACH]), p, shift)[0]
    highest = _log_mixture(np.array([(len(p) - 1) * shift + _REACH]), p, shift)[0]
    removing = _grid(lowest, highest, width)
    adding = _grid(-highest, -lowest, width)
    return PrivacyLossDistribution(
        _pmf(removing, removing_delta(np.asarray(width * removing, np.float64), loss), width),
        _pmf(adding, adding_delta(np.asarray(width * adding, np.float64), loss), width),
    )


def replacing_distribution(loss: GroupLoss, width: float) -> PrivacyLossDistribution:
    """The distribution for replacing the group, on a grid of the given width."""
    p, _ = weights(loss)
    mus = 2 * np.arange(len(p)) / loss.noise_multiplier
    farthest = mus[-1] ** 2 / 2 + _REACH * mus[-1]
    grid = _grid(-farthest, farthest, width)
    deltas = replacing_delta(np.asarray(width * grid, np.float64), loss)
    return PrivacyLossDistribution(_pmf(grid, deltas, width))


def removing_delta(epsilons: _Array, loss: GroupLoss) -> _Array:
    """The hockey-stick divergence of P from Q at each epsilon."""
    p, cut = weights(loss)
    shift = 1 / loss.noise_multiplier
    deltas = -np.expm1(np.minimum(epsilons, 0.0))
    informative = epsilons > _log_none(loss)
    epsilon = epsilons[informative]
    edge = _edge(epsilon, p, _sampled_probability(loss), shift)
    above = sum(p_k * ndtr(k * shift - edge) for k, p_k in enumerate(p))
    deltas[informative] = above + cut - np.exp(epsilon + log_ndtr(-edge))
    clipped: _Array = np.clip(deltas, 0.0, 1.0)
    return clipped


def adding_delta(epsilons: _Array, loss: GroupLoss) -> _Array:
    """The hockey-stick divergence of Q from P at each epsilon."""
    p, _ = weights(loss)
    shift = 1 / loss.noise_multiplier
    deltas = np.zeros(epsilons.shape)
    informative = -epsilons > _log_none(loss)
    epsilon = epsilons[informative]
    edge = _edge(-epsilon, p, _sampled_probability(loss), shift)
    below = sum(
        np.exp(epsilon + math.log(p_k) + log_ndtr(edge - k * shift))
        for k, p_k in enumerate(p)
        if p_k > 0
    )
    deltas[informative] = ndtr(edge) - below
    clipped: _Array = np.clip(deltas, 0.0, 1.0)
    return clipped


def replacing_delta(epsilons: _Array, loss: GroupLoss) -> _Array:
    """The bound from the module docstring at each epsilon, the same in both directions."""
    p, cut = weights(loss)
    some = _sampled_probability(loss)
    size = np.abs(epsilons)
    inner = log_of_excess(size, some) - math.log(some)  # epsilon'
    deltas = np.full(epsilons.shape, cut)
    for k, p_k in enumerate(p[1:], 1):
        mu = 2 * k / loss.noise_multiplier
        beyond = np.exp(inner + log_ndtr(-mu / 2 - inner / mu))
        deltas += p_k * np.maximum(ndtr(mu / 2 - inner / mu) - beyond, 0.0)
    # For epsilon < 0 swap P and Q: delta(-epsilon) = 1 - e^-epsilon + e^-epsilon delta(epsilon).
    deltas = np.where(epsilons < 0, -np.expm1(-size) + np.exp(-size) * deltas, deltas)
    clipped: _Array = np.clip(deltas, 0.0, 1.0)
    return clipped


def _log_mixture(u: _Array, p: _Array, shift: float) -> _Array:
    """ln(P/Q) at the point u, in standard deviations."""
    k = np.arange(len(p))
    with np.errstate(divide="ignore"):
        exponents = np.outer(u, k * shift) - (k * shift) ** 2 / 2 + np.log(p)
    logs: _Array = logsumexp(exponents, axis=1)
    return logs


def _edge(epsilon: _Array, p: _Array, some: float, shift: float) -> _Array:
    """Where ln(P/Q) = epsilon, in standard deviations: above it, the loss is larger.

    Without its constant p_0 the logarithm of P/Q is convex with a slope of at least `shift`, so
    Newton's method converges quickly from the right.
    """
    wanted = log_of_excess(epsilon, some)
    k = np.arange(1, len(p))
    with np.errstate(divide="ignore"):
        starts = np.log(p[1:]) - (k * shift) ** 2 / 2
    u: _Array = np.min((wanted[:, None] - starts) / (k * shift), axis=1)
    for _ in range(100):
        terms = starts + np.outer(u, k * shift)
        value = logsumexp(terms, axis=1)
        slope = np.exp(terms - value[:, None]) @ (k * shift)
        step = (value - wanted) / slope
        u = u - step
        if not step.size or np.max(np.abs(step) / (1 + np.abs(u))) < _PRECISION:
            break
    return u


def _grid(lowest: float, highest: float, width: float) -> NDArray[np.int64]:
    return np.arange(math.floor(lowest / width), math.ceil(highest / width) + 1, dtype=np.int64)


def _pmf(places: NDArray[np.int64], deltas: _Array, width: float) -> pld_pmf.PLDPmf:
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        width, int(places[0]), int(places[-1]), np.minimum.accumulate(deltas)
    )
