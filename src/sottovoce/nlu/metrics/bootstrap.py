"""Confidence intervals of scores: the percentile bootstrap over utterances.

Many utterances have identical counts, and only the number of draws of each distinct row matters,
so one multinomial draw over the distinct rows is a complete resample.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.nlu.metrics.scores import COLUMNS, NAMES, Counts, ratios, relative_change, share

RESAMPLES = 2000
_Number = TypeVar("_Number", np.int64, np.float64)
# Counts drawn per chunk; limits memory to a few megabytes.
_CHUNK = 2_000_000


class Interval(NamedTuple):
    """From the lower to the upper percentile."""

    low: float
    high: float


def intervals(
    counts: Counts, *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int | None = 0
) -> dict[str, Interval]:
    """An interval for each of the four scores and of the additional metrics, by name."""
    found = _percentiles(ratios(_resampled(counts.rows, resamples, seed)), confidence)
    for name, rows in counts.further.items():
        drawn = share(_resampled(rows, resamples, seed))
        found |= _percentiles(drawn[:, None], confidence, (name,))
    return found


@dataclass(frozen=True)
class Change:
    """The change of a score relative to a baseline on the same utterances."""

    difference: float
    interval: Interval
    """Interval of the difference; the change is significant if it excludes 0."""
    relative: float
    """The difference divided by the baseline's score."""


def paired_change(
    counts: Counts,
    baseline: Counts,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int | None = 0,
) -> dict[str, Change]:
    """The change of each score, by a paired bootstrap: both systems use the same resamples.

    >>> better, worse = Counts(np.array([[1, 0, 2, 1, 2, 1, 1]] * 9)), Counts(
    ...     np.array([[1, 1, 2, 1, 1, 0, 0]] * 9))
    >>> paired_change(better, worse)["ser"]
    Change(difference=-0.5, interval=Interval(low=-0.5, high=-0.5), relative=-1.0)
    """
    if len(counts) != len(baseline):
        raise InvalidInput(
            f"Expected a baseline on the same {len(counts):,} utterances, got {len(baseline):,}."
        )
    sums = _resampled(np.hstack([counts.rows, baseline.rows]), resamples, seed)
    width = len(COLUMNS)
    found = _percentiles(ratios(sums[:, :width]) - ratios(sums[:, width:]), confidence)
    for name in counts.further:
        both = _resampled(
            np.hstack([counts.further[name], baseline.further[name]]), resamples, seed
        )
        drawn = share(both[:, :2]) - share(both[:, 2:])
        found |= _percentiles(drawn[:, None], confidence, (name,))
    ours, theirs = counts.to_json(), baseline.to_json()
    return {
        name: Change(
            ours[name] - theirs[name], found[name], relative_change(ours[name], theirs[name])
        )
        for name in found
    }


def _resampled(rows: NDArray[_Number], resamples: int, seed: int | None) -> NDArray[_Number]:
    """[resamples, columns] sums of the counts of each resample."""
    _validate.at_least_one("resamples", resamples)
    if len(rows) == 0:
        raise InvalidInput("Expected utterances to draw from, got none.")
    kinds, counts = np.unique(rows, axis=0, return_counts=True)
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // len(kinds))
    sums = [
        rng.multinomial(len(rows), counts / len(rows), size=min(step, resamples - start)) @ kinds
        for start in range(0, resamples, step)
    ]
    return np.concatenate(sums)


def _percentiles(
    drawn: NDArray[np.float64], confidence: float, names: Sequence[str] = NAMES
) -> dict[str, Interval]:
    if not 0 < confidence < 1:
        raise InvalidInput(f"Expected confidence between 0 and 1, got {confidence:g}.")
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    return {name: Interval(float(low[i]), float(high[i])) for i, name in enumerate(names)}
