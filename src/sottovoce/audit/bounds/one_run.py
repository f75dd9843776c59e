"""Lower bounds on epsilon from one run with many canaries.

Each of m canaries is included by an independent fair coin; an attacker who sees the result guesses
some of the coins.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv, expit, gammaln, ndtr, ndtri

from sottovoce import _validate
from sottovoce.audit import _checks
from sottovoce.audit.bounds.lower_bound import LowerBound
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants import gaussian

METHOD = "one-run bound of Steinke et al."


def one_run_bound(
    *, canaries: int, guesses: int, correct: int, delta: float, confidence: float = 0.95
) -> LowerBound:
    """Lower bound on epsilon from `correct` guesses about canaries included by fair coins.

    The bound of Steinke, Nasr and Jagielski (2023): the largest epsilon whose `p_value` is below
    1 - confidence.

    The number of guesses must be fixed before the scores are seen, or by one of the rules of
    `audit.canaries.one_run`.

    >>> bound = one_run_bound(canaries=1000, guesses=100, correct=90, delta=1e-5)
    >>> round(bound.epsilon, 6)
    1.626143
    """
    check_guesses(canaries, guesses, correct)
    _validate.delta(delta)
    significance = 1 - _checks.confidence(confidence)
    return LowerBound(
        epsilon=_largest_refuted(canaries, guesses, correct, delta, significance),
        delta=delta,
        confidence=confidence,
        method=METHOD,
        evidence=evidence(canaries, guesses, correct),
    )


def p_value(*, canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Upper bound on the probability, under (epsilon, delta)-privacy, of this many correct guesses.

    For m canaries and r guesses, v of them correct, with q = e^epsilon / (1 + e^epsilon),

        p(epsilon) = P[Bin(r, q) >= v] + 2 m delta max_{1 <= i <= v} P[v - i <= Bin(r, q) < v] / i.

    >>> round(p_value(canaries=10, guesses=10, correct=10, epsilon=0.0, delta=0.0) * 2**10, 9)
    1.0
    """
    check_guesses(canaries, guesses, correct)
    _validate.not_negative("epsilon", epsilon)
    _validate.delta(delta)
    if correct == 0:
        return 1.0
    weights = _log_binomials(guesses, correct) if delta else np.empty(0)
    p = _p_value(canaries, guesses, correct, epsilon, delta, weights)
    return min(p, 1.0)


def check_guesses(canaries: int, guesses: int, correct: int) -> None:
    _validate.at_least_one("canaries", canaries)
    _validate.at_least_one("guesses", guesses)
    _checks.part_of("guesses", guesses, "canaries", canaries)
    _checks.part_of("correct", correct, "guesses", guesses)


def evidence(canaries: int, guesses: int, correct: int) -> str:
    return f"{correct} of {guesses} guesses about {canaries} canaries were right"


def _largest_refuted(
    canaries: int, guesses: int, correct: int, delta: float, significance: float
) -> float:
    if correct == 0:
        return 0.0
    # For delta = 0 this is a Clopper-Pearson limit: a quantile of Beta(v, r-v+1). Its complement is
    # computed separately, because 1 - q would lose precision for a large epsilon.
    q = float(betaincinv(correct, guesses - correct + 1, significance))
    rest = float(betaincinv(guesses - correct + 1, correct, 1 - significance))
    highest = max(0.0, float(np.log(q) - np.log(rest))) if q > 0 else 0.0
    if delta == 0 or highest == 0:
        return highest
    weights = _log_binomials(guesses, correct)

    def excess(epsilon: float) -> float:
        return _p_value(canaries, guesses, correct, epsilon, delta, weights) - significance

    if excess(0.0) >= 0:
        return 0.0
    if excess(highest) < 0:  # delta is so small that it vanishes in rounding
        return highest
    return float(brentq(excess, 0.0, highest, xtol=1e-13, rtol=1e-14))


def _p_value(
    canaries: int,
    guesses: int,
    correct: int,
    epsilon: float,
    delta: float,
    weights: NDArray[np.float64],
) -> float:
    tail = float(betainc(correct, guesses - correct + 1, expit(epsilon)))
    if delta == 0:
        return tail
    # P[Bin = k] for k = v-1 down to 0; ln q and ln(1-q) without cancellation.
    successes = np.arange(correct - 1, -1, -1)
    log_q, log_rest = -np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)
    masses = np.exp(weights + successes * log_q + (guesses - successes) * log_rest)
    windows = np.cumsum(masses) / np.arange(1, correct + 1)
    return tail + 2 * canaries * delta * float(windows.max())


def _log_binomials(guesses: int, correct: int) -> NDArray[np.float64]:
    """ln of the binomial coefficients (guesses, k) for k = correct-1 down to 0."""
    k = np.arange(correct - 1, -1, -1, dtype=np.float64)
    logs: NDArray[np.float64] = gammaln(guesses + 1.0) - gammaln(k + 1) - gammaln(guesses - k + 1)
    return logs


GAUSSIAN_METHOD = "one-run bound of Mahloujifar et al. for Gaussian mechanisms"


def one_run_gaussian_bound(
    *, canaries: int, guesses: int, correct: int, delta: float, confidence: float = 0.95
) -> LowerBound:
    """Lower bound on epsilon from correct guesses, for a Gaussian mechanism.

    The bound of Mahloujifar, Melis and Chaudhuri (2024). The guessing game is that of
    `one_run_bound`, but the refuted hypothesis is stronger: that the whole training is
    mu-Gaussian-DP. The bound on epsilon is that of the largest refuted mu (see `_refuted`). It does
    not apply to mechanisms whose trade-off curve is not above a Gaussian one. Poisson sampling
    gives such a curve, so there the bound is exact evidence only against "this is mu-Gaussian-DP".

    >>> bound = one_run_gaussian_bound(canaries=1000, guesses=100, correct=90, delta=1e-5)
    >>> round(bound.epsilon, 6), round(bound.mu, 4)
    (2.456405, 0.6025)
    """
    check_guesses(canaries, guesses, correct)
    _validate.delta(delta)
    if delta == 0:
        raise InvalidInput("Expected delta > 0: Gaussian noise has no pure epsilon, got 0.")
    mu = _largest_refuted_mu(canaries, guesses, correct, 1 - _checks.confidence(confidence))
    return LowerBound(
        epsilon=gaussian.epsilon_of(mu, delta),
        delta=delta,
        confidence=confidence,
        method=GAUSSIAN_METHOD,
        evidence=evidence(canaries, guesses, correct),
        mu=mu,
    )


def _largest_refuted_mu(canaries: int, guesses: int, correct: int, significance: float) -> float:
    """Bisection: a larger mu allows better guesses, so it is harder to refute."""
    if not _refuted(0.0, canaries, guesses, correct, significance):
        return 0.0
    low, high = 0.0, 1.0
    while _refuted(high, canaries, guesses, correct, significance):
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if _refuted(middle, canaries, guesses, correct, significance):
            low = middle
        else:
            high = middle
    return low


def _refuted(mu: float, canaries: int, guesses: int, correct: int, significance: float) -> bool:
    """Whether these guesses are too good for mu.

    With m canaries, beta = 1 - confidence, c guesses and v of them correct,

        r = beta v / m,   h = beta (c - v) / m,   and for i = v - 1, ..., 0:
        h' = max(h, Phi(Phi^-1(r) - mu)),   r += i / (c - i) (h' - h),   h = h',

    and mu is refuted if r + h > c / m.
    """
    limit = guesses / canaries
    right = significance * correct / canaries
    wrong = significance * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        needed = float(ndtr(ndtri(right) - mu))
        if needed <= wrong:
            return False  # a fixed point below the limit
        right += i / (guesses - i) * (needed - wrong)
        wrong = needed
        # Both are non-decreasing, so stop early: this keeps 10^5 guesses cheap.
        if right + wrong > limit:
            return True
    return False
