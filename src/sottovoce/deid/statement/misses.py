"""The cost of a detector that misses values.

A missed value is released unchanged. If it is in no surrogate list, it identifies itself, so no
epsilon holds with a delta below the probability that any value of a unit is missed. With k values
and recall r that probability is 1 - r^k; with the remaining r^k every value went through its
mechanism. So the release is (epsilon of k values, delta + 1 - r^k).

Neither r nor k is known. r is at least the Clopper-Pearson bound of the evaluation. Of k values,
Bin(k, r) are found, so k is at most the largest number for which finding so few is not too
unlikely. All bounds hold jointly with the confidence of the evaluation: half of the error is split
over the types, half over the units.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scipy import stats

from sottovoce import _validate
from sottovoce.deid.detect.evaluation import Evaluation, recall_lower_bound
from sottovoce.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Misses:
    """A lower bound on the recall, shared by all types: a value may be found as another type."""

    recalls: Mapping[str, float]
    confidence: float

    @classmethod
    def of(
        cls, evaluation: Evaluation, found: Collection[str], by_words: Collection[str]
    ) -> "Misses":
        """`found` are the types in the release; those in `by_words` are replaced word by word."""
        error = (1 - evaluation.confidence) / (2 * max(1, len(evaluation.types)))
        recalls = dict.fromkeys(found, 0.0)  # not evaluated
        for kind, seen in evaluation.types.items():
            total = seen.words if kind in by_words else seen.values
            missed = seen.missed_words if kind in by_words else seen.missed_values
            recalls[kind] = recall_lower_bound(total - missed, total, 1 - error)
        return cls(recalls=recalls, confidence=evaluation.confidence)

    @property
    def recall(self) -> float:
        return min(self.recalls.values(), default=0.0)

    def max_values(self, found: int, units: int) -> int:
        """Upper bound on the values of a unit with `found` found values, jointly for all units."""
        return max_values(found, self.recall, (1 - self.confidence) / (2 * max(1, units)))


def max_values(found: int, recall: float, error: float) -> int:
    """The largest k for which Bin(k, recall) is at most `found` with probability above `error`.

    >>> max_values(0, 0.9, 0.05), max_values(10, 0.5, 0.05)
    (1, 29)
    >>> max_values(7, 1.0, 0.05)
    7
    """
    if found < 0:
        raise InvalidInput(f"Expected a count >= 0, got {found}.")
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
