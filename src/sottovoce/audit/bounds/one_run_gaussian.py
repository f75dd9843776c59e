"""One-run bound for Gaussian mechanisms (Mahloujifar, Melis and Chaudhuri 2024).

The same guessing game as in `one_run`, but the refuted hypothesis is stronger: that the whole
training is mu-Gaussian-DP. With beta = 1 - confidence, c guesses and v of them correct,

    r = beta v / m,   h = beta (c - v) / m,   and for i = v - 1, ..., 0:
    h' = max(h, Phi(Phi^-1(r) - mu)),   r += i / (c - i) (h' - h),   h = h',

and mu is refuted if r + h > c / m. The bound on epsilon is that of the largest refuted mu. It does
not apply to mechanisms whose trade-off curve is not above a Gaussian one. Poisson sampling gives
such a curve, so there the bound is exact evidence only against "this is mu-Gaussian-DP".
"""

from scipy.special import ndtr, ndtri

from sottovoce import _validate
from sottovoce.audit import _checks
from sottovoce.audit.bounds.lower_bound import LowerBound
from sottovoce.audit.bounds.one_run import check_guesses, evidence
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants import gaussian

METHOD = "one-run bound of Mahloujifar et al. for Gaussian mechanisms"


def one_run_gaussian_bound(
    *, canaries: int, guesses: int, correct: int, delta: float, confidence: float = 0.95
) -> LowerBound:
    """Lower bound on epsilon from correct guesses, for a Gaussian mechanism.

    >>> bound = one_run_gaussian_bound(canaries=1000, guesses=100, correct=90, delta=1e-5)
    >>> round(bound.epsilon, 6), round(bound.mu, 4)
    (2.456405, 0.6025)
    """
    check_guesses(canaries, guesses, correct)
    _validate.delta(delta)
    if delta == 0:
        raise InvalidInput("Expected delta > 0: Gaussian noise has no pure epsilon, got 0.")
    mu = _largest_refuted(canaries, guesses, correct, 1 - _checks.confidence(confidence))
    return LowerBound(
        epsilon=gaussian.epsilon_of(mu, delta),
        delta=delta,
        confidence=confidence,
        method=METHOD,
        evidence=evidence(canaries, guesses, correct),
        mu=mu,
    )


def _largest_refuted(canaries: int, guesses: int, correct: int, significance: float) -> float:
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
