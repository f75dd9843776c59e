"""The arithmetic of the papers, for the column "claimed". None of this is a guarantee.

Training (Dupuy et al., after Yu et al. 2019): the sum of one zCDP term rho = 1/(2 z_t^2) per epoch,
then epsilon = rho + 2 sqrt(rho ln(1/delta)); in log space, because published values reach 10^24.
"""

import math
from collections.abc import Iterable

import numpy as np

from sottovoce.privacy.guarantee import Claim


def zcdp(noise_multipliers: Iterable[float], delta: float, how: str) -> Claim:
    """The zCDP claim for one noise multiplier per epoch.

    >>> claim = zcdp([1.0] * 10, 5e-4, "zCDP")
    >>> round(claim.epsilon, 4), round(claim.log10_epsilon, 4)
    (17.3296, 1.2388)
    """
    # The noise may decay to 0; then the claim is infinite.
    log_rho = float(
        np.logaddexp.reduce(
            [-math.log(2) - 2 * math.log(z) if z else math.inf for z in noise_multipliers]
        )
    )
    if math.isinf(log_rho):
        return Claim(epsilon=math.inf, log10_epsilon=math.inf, delta=delta, how=how)
    log_root = math.log(2) + (log_rho + math.log(-math.log(delta))) / 2
    log_epsilon = float(np.logaddexp(log_rho, log_root))
    epsilon = math.exp(log_epsilon) if log_epsilon < 709 else math.inf
    return Claim(epsilon=epsilon, log10_epsilon=log_epsilon / math.log(10), delta=delta, how=how)


def replacement_lemma(replace_probability: float, surrogate_probability: float) -> float:
    """Adelani et al.: max over tokens of ln((1 - p + p pi) / (p pi)).

    >>> round(replacement_lemma(0.9, 0.1), 6)
    0.747214
    """
    if replace_probability == 1:
        return 0.0
    likelihood = replace_probability * surrogate_probability
    return math.log1p((1 - replace_probability) / likelihood) if likelihood else math.inf
