"""The change of a score against a baseline, as a share of the baseline (Table 1 of the paper)."""

import math


def relative_change(value: float, baseline: float) -> float:
    """(value - baseline) / baseline; from nothing to something it is infinite.

    >>> relative_change(0.3125, baseline=0.25)
    0.25
    >>> relative_change(0.0, baseline=0.0), relative_change(0.1, baseline=0.0)
    (0.0, inf)
    """
    if value == baseline:
        return 0.0
    if baseline == 0:
        return math.copysign(math.inf, value)
    return (value - baseline) / baseline
