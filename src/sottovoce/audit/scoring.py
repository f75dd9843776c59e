"""The interface of an audit: a function that scores records, and one that trains a model.

The audit does not depend on weights or frameworks. A score is the log-probability of the true
labels of a record, which is minus its loss: at most 0.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.audit import _checks
from sottovoce.audit._checks import Scores
from sottovoce.errors import InvalidInput

Record = TypeVar("Record", contravariant=True)


class ScoringFunction(Protocol[Record]):
    """Returns the log-probability of the true labels of each record."""

    def __call__(self, records: Sequence[Record], /) -> ArrayLike: ...


class TrainReference(Protocol[Record]):
    """Trains a model like the audited one on these records; `index` is its number."""

    def __call__(self, records: Sequence[Record], index: int, /) -> ScoringFunction[Record]: ...


def log_probabilities(values: ArrayLike, size: int | None = None) -> Scores:
    """Check the result of a scoring function.

    >>> log_probabilities([-0.1, 0.3])
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected log-probabilities (minus the loss) of at most 0, got
    0.3.
    """
    scores = _checks.scores("the log-probabilities", values, size=size)
    if scores.max() > 1e-6:  # float32 rounding may give probabilities slightly above 1
        raise InvalidInput(
            f"Expected log-probabilities (minus the loss) of at most 0, got {scores.max():g}."
        )
    return np.minimum(scores, 0.0)


def log_odds(log_p: ArrayLike) -> Scores:
    """ln(p / (1 - p)) from log-probabilities, finite even if p rounds to 1.

    Losses concentrate at zero, but log-odds are close to normal (Carlini et al. 2022).

    >>> log_odds([np.log(0.5), np.log(0.9)]).round(4).tolist()
    [0.0, 2.1972]
    """
    clipped = np.clip(np.asarray(log_p, dtype=np.float64), -700.0, -np.finfo(float).eps)
    odds: Scores = clipped - np.log(-np.expm1(clipped))
    return odds
