"""ROC curve of an attack, its area, and its true positive rate at low false positive rates.

The area (AUC) is an average over all thresholds. Privacy is lost at low false positive rates, where
an attacker is nearly always right about a few people, so the true positive rates at 0.1 % and 1 %
false positives are reported too, and the curve is stored on a logarithmic axis.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit, ndtri

from sottovoce import _validate
from sottovoce.audit import _checks
from sottovoce.audit._checks import Scores
from sottovoce.audit.bounds.lower_bound import Interval, clopper_pearson

LOW_RATES = (0.001, 0.01)


@dataclass(frozen=True)
class Rate:
    """The true positive rate at a false positive rate, with its Clopper-Pearson interval.

    `resolved` is false if there are too few non-members for this rate: fewer than
    1 / false_positive_rate. The threshold is then the highest score of a non-member.
    """

    false_positive_rate: float
    true_positive_rate: float
    interval: Interval
    resolved: bool


class Curve(NamedTuple):
    """Points of the ROC curve, from (0, 0) to (1, 1)."""

    false_positive_rates: tuple[float, ...]
    true_positive_rates: tuple[float, ...]


def auc(members: ArrayLike, non_members: ArrayLike) -> float:
    """The probability that a member scores above a non-member; ties count half.

    >>> round(auc([3, 2, 2], [2, 1]), 4)
    0.8333
    """
    m, n = _pair(members, non_members)
    ranks = _midranks(np.concatenate([m, n]))[: m.size]
    return float((ranks.mean() - (m.size + 1) / 2) / n.size)


def auc_interval(members: ArrayLike, non_members: ArrayLike, confidence: float = 0.95) -> Interval:
    """DeLong's interval of the AUC, symmetric on the logit scale so that it stays within 0 and 1.

    If the samples are separated (or all tied), DeLong's variance is zero. Then disjoint pairs of a
    member and a non-member are independent trials, and their Clopper-Pearson interval is returned.

    >>> low, high = auc_interval([3, 2, 2, 5], [2, 1, 0, 4])
    >>> round(low, 3), round(high, 3)
    (0.275, 0.959)
    """
    m, n = _pair(members, non_members)
    _checks.confidence(confidence)
    area = auc(m, n)
    variance = _delong_variance(m, n)
    if variance == 0:
        pairs = min(m.size, n.size)
        return Interval(
            clopper_pearson(math.floor(area * pairs), pairs, confidence).low,
            clopper_pearson(math.ceil(area * pairs), pairs, confidence).high,
        )
    reach = ndtri((1 + confidence) / 2) * math.sqrt(variance) / (area * (1 - area))
    middle = logit(area)
    return Interval(float(expit(middle - reach)), float(expit(middle + reach)))


def rate_at(
    members: ArrayLike,
    non_members: ArrayLike,
    false_positive_rate: float,
    confidence: float = 0.95,
) -> Rate:
    """The true positive rate at a false positive rate.

    The interval accounts for the sampling of members; the threshold, from the non-members, is
    treated as fixed.

    >>> rate_at([5, 4, 1], [3, 2, 0, -1], 0.25).true_positive_rate
    0.6666666666666666
    """
    m, n = _pair(members, non_members)
    _validate.rate("false_positive_rate", false_positive_rate)
    # The tolerance corrects rounding such as 0.01 * 300 = 2.9999999999999996.
    allowed = min(math.floor(false_positive_rate * n.size + 1e-9), n.size - 1)
    threshold = np.partition(n, n.size - 1 - allowed)[n.size - 1 - allowed]
    found = int((m > threshold).sum())
    return Rate(
        false_positive_rate=false_positive_rate,
        true_positive_rate=found / m.size,
        interval=clopper_pearson(found, m.size, confidence),
        resolved=allowed >= 1,
    )


def curve(members: ArrayLike, non_members: ArrayLike, points: int = 100) -> Curve:
    """At most `points` corners of the ROC curve, evenly spaced on a logarithmic axis.

    >>> curve([3, 2], [2, 1])
    Curve(false_positive_rates=(0.0, 0.0, 0.5, 1.0), true_positive_rates=(0.0, 0.5, 1.0, 1.0))
    """
    m, n = _pair(members, non_members)
    _validate.at_least_one("points", points)
    thresholds = np.unique(np.concatenate([m, n]))[::-1]
    true = np.searchsorted(np.sort(-m), -thresholds, side="right") / m.size
    false = np.searchsorted(np.sort(-n), -thresholds, side="right") / n.size
    if thresholds.size > points:
        wanted = np.geomspace(1 / n.size, 1, points)
        # The last corner at or below each rate; duplicates are removed.
        kept = np.unique(np.searchsorted(false, wanted, side="right") - 1)
        kept = np.append(kept[kept >= 0], thresholds.size - 1)
        true, false = true[np.unique(kept)], false[np.unique(kept)]
    return Curve((0.0, *false.tolist()), (0.0, *true.tolist()))


def _pair(members: ArrayLike, non_members: ArrayLike) -> tuple[Scores, Scores]:
    return (
        _checks.scores("the members' scores", members),
        _checks.scores("the non-members' scores", non_members),
    )


def _midranks(values: Scores) -> Scores:
    """Ranks from 1, with mean ranks for ties."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Scores = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks


def _delong_variance(m: Scores, n: Scores) -> float:
    """The variance of the AUC from midranks (Sun and Xu 2014), in O(n log n)."""
    if min(m.size, n.size) < 2:
        return 0.0
    ranks = _midranks(np.concatenate([m, n]))
    of_members = (ranks[: m.size] - _midranks(m)) / n.size
    of_non_members = (ranks[m.size :] - _midranks(n)) / m.size
    return float(of_members.var(ddof=1) / m.size + of_non_members.var(ddof=1) / n.size)
