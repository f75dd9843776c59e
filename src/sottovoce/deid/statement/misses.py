"""What a detector that misses some values costs.

A missed value is released as it is. If it is in no surrogate list, nothing else ever looks like it,
so whoever sees it knows it: no epsilon holds with less delta than the probability that any of the
values of a unit is missed. With k values and recall r that is 1 - r^k; with the other r^k the
mechanisms did what they say. So the release is (epsilon of k values, delta + 1 - r^k).

Neither r nor k is known. r is at least the Clopper-Pearson bound of the evaluation. Of k values a
number Bin(k, r) is found, so k is at most the largest number for which that few found ones are not
too unlikely. All these bounds hold together with the confidence of the evaluation: half of the
error is shared by the types, half by the units.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scipy import stats

from sottovoce import _validate
from sottovoce.deid.detect.evaluation import Evaluation, recall_lower_bound
from sottovoce.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Misses:
    """A bound on the recall, the same for every type: a value may be found as another type."""

    recalls: Mapping[str, float]
    confidence: float

    @classmethod
    def of(
        cls, evaluation: Evaluation, found: Collection[str], by_words: Collection[str]
    ) -> "Misses":
        """`found` are the types in the release; those `by_words` are replaced word by word."""
        error = (1 - evaluation.confidence) / (2 * max(1, len(evaluation.types)))
        recalls = dict.fromkeys(found, 0.0)  # nobody has looked how often such a type is missed
        for kind, seen in evaluation.types.items():
            total = seen.words if kind in by_words else seen.values
            missed = seen.missed_words if kind in by_words else seen.missed_values
            recalls[kind] = recall_lower_bound(total - missed, total, 1 - error)
        return cls(recalls=recalls, confidence=evaluation.confidence)

    @property
    def recall(self) -> float:
        return min(self.recalls.values(), default=0.0)

    def most_values(self, found: int, units: int) -> int:
        """The most values that a unit has, if so many were found, for all of the units at once."""
        return most_values(found, self.recall, (1 - self.confidence) / (2 * max(1, units)))


def most_values(found: int, recall: float, error: float) -> int:
    """The largest k for which Bin(k, recall) is at most `found` with more probability than `error`.

    >>> most_values(0, 0.9, 0.05), most_values(10, 0.5, 0.05)
    (1, 29)
    >>> most_values(7, 1.0, 0.05)
    7
    """
    if found < 0:
        raise InvalidInput(f"Expected a number of values, got {found}.")
    _validate.rate("recall", recall)
    _validate.rate("error", error)

    def possible(values: int) -> bool:
        return bool(stats.binom.cdf(found, values, recall) > error)

    low, high = found, found + 1
    while possible(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if possible(middle) else (low, middle)
    return low
