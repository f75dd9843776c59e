"""Federated averaging of client distributions, as the paper has it (eq. 6).

q_bar = sum_i c_i q_i / sum_i c_i. With increments the same sum is built up from count vectors
(see `server`); this form is for clients that send a distribution and its weight.
"""

from collections.abc import Sequence

import numpy as np

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.vocabulary import Vector


def average(distributions: Sequence[Vector], masses: Sequence[float]) -> Vector:
    """The mean of the distributions, each with the weight of its client.

    >>> average([np.array([1.0, 0.0]), np.array([0.0, 1.0])], [3.0, 1.0]).tolist()
    [0.75, 0.25]
    """
    if not distributions or len(distributions) != len(masses):
        raise InvalidInput(
            f"Expected as many masses as distributions and at least one, got {len(masses)} and "
            f"{len(distributions)}."
        )
    for mass in masses:
        _validate.not_negative("every mass", mass)
    total = sum(masses)
    _validate.positive("the sum of all masses", total)
    mean: Vector = np.average(np.stack(distributions), axis=0, weights=np.asarray(masses))
    return mean
