"""The Gaussian mechanism without amplification: the exact formula.

A release with mu = sensitivity / standard deviation satisfies (epsilon, delta) if and only if
    delta >= Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)        (Balle and Wang 2018)
and releases compose as mu = sqrt(sum mu_t^2). Written with a = epsilon/mu - mu/2 the second term is
phi(a) times Mills' ratio of a + mu, which neither overflows nor cancels: it is accurate from
epsilon 1e-6 to 1e25.
"""

import math
from collections.abc import Iterable

from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr, ndtri_exp

_SMALLEST_MU = 1e-9


def compose(mus: Iterable[float]) -> float:
    """The mu of composed releases.

    >>> compose([3.0, 4.0])
    5.0
    """
    return math.hypot(*mus)


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest delta at which a release with this mu satisfies epsilon.

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
    log_density = -a * a / 2
    mills = erfcx((a + mu) / math.sqrt(2)) / 2  # times phi(a) sqrt(2 pi) below
    return float(math.exp(log_ndtr(-a)) - math.exp(log_density) * mills)
