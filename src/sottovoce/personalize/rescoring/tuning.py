"""Weights with the fewest expected word errors on a development part.

The best of a thousand weights on a grid is the one that was lucky on few lists. So the choice is
softened: a hypothesis is taken with the probability exp(total) / sum exp(total), and the errors
that this expects have a gradient. The sum of squared weights is added, each in units of how much
its part varies within a list; it keeps weights small that hardly matter.

Even so, another dozen clients would choose other weights. What is used is therefore the mean over
several draws of as many clients with replacement (bagging): what only some of them ask for cancels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.vocabulary import Vector
from sottovoce.personalize.rescoring.scores import ScoreTable, Weights

# More of A, of its average and of a language model is better; words may count either way.
LEAST = (0.0, 0.0, 0.0, 0.0, -np.inf, -np.inf, -np.inf)

Parts = NDArray[np.float64]

DRAWS = 10


@dataclass(frozen=True)
class Fit:
    """One weight a part, and the errors expected with them, the pull of the weights included."""

    weights: Vector
    expected: float


def least_errors(
    parts: Parts,
    errors: NDArray[np.int64],
    absent: NDArray[np.bool_],
    least: Sequence[float] = LEAST,
    pull: float = 1.0,
) -> Fit:
    """The weights of `parts` (lists x hypotheses x parts) that expect the fewest `errors`.

    It starts from the first part alone; no weight falls below its value in `least`.
    """
    present = ~absent
    means = (parts * present[..., None]).sum(axis=1) / present.sum(axis=1)[:, None]
    varying = np.where(absent[..., None], 0.0, parts - means[:, None])
    spread = np.sqrt((varying**2).sum(axis=(0, 1)) / present.sum())
    # What never varies cannot matter, and weighs nothing.
    known = spread > 1e-12
    unit = np.where(known, spread, 1.0)
    units = varying / unit

    start = np.zeros(parts.shape[-1])
    start[0] = 1.0
    bounds = [(low, None) for low in least]
    given = (units, errors, absent, pull)
    # A hundredth of an error in ten thousand is close enough.
    found = minimize(
        expected_errors, start, given, "L-BFGS-B", jac=True, bounds=bounds, options={"ftol": 1e-6}
    )
    return Fit(np.where(known, found.x / unit, 0.0), float(found.fun))


def steady(
    parts: Parts,
    errors: NDArray[np.int64],
    absent: NDArray[np.bool_],
    clients: NDArray[np.int64],
    least: Sequence[float] = LEAST,
    draws: int = DRAWS,
) -> Vector:
    """The mean of the weights that several draws of clients choose; lists belong to `clients`."""
    chance = np.random.default_rng(0)
    lists = [np.flatnonzero(clients == client) for client in np.unique(clients)]
    weights = []
    for _ in range(draws):
        rows = np.concatenate([lists[place] for place in chance.choice(len(lists), len(lists))])
        weights.append(least_errors(parts[rows], errors[rows], absent[rows], least).weights)
    mean: Vector = np.mean(weights, axis=0)
    return mean


def expected_errors(
    weights: Vector,
    units: Parts,
    errors: NDArray[np.int64],
    absent: NDArray[np.bool_],
    pull: float,
) -> tuple[float, Vector]:
    """Errors of a softened choice plus the pull, and their gradient."""
    total = np.where(absent, -np.inf, units @ weights)
    chances = np.exp(total - total.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    risk = (chances * errors).sum(axis=1, keepdims=True)
    slope = np.tensordot(chances * (errors - risk), units)
    return float(risk.sum() + pull * weights @ weights), slope + 2 * pull * weights


def tune(tables: Mapping[float, ScoreTable]) -> tuple[float, Weights, int]:
    """The power and weights that expect the fewest errors, and how many errors they make.

    `tables` has the scores of each power. Ties go to the earliest.
    """
    if not tables:
        raise InvalidInput("Expected scores for at least one power, got none.")
    best: tuple[float, float, bool] | None = None
    for power, table in tables.items():
        for per_word in (False, True):
            fit = least_errors(table.parts(per_word=per_word), table.errors, table.absent)
            if best is None or fit.expected < best[0]:
                best = (fit.expected, power, per_word)
    assert best is not None
    _, power, per_word = best
    table = tables[power]
    values = steady(table.parts(per_word=per_word), table.errors, table.absent, table.clients)
    weights = _named(values, per_word=per_word)
    return power, weights, table.count(weights)


def _named(values: Vector, *, per_word: bool) -> Weights:
    # Only their proportions matter; the largest becomes 1, which is easier to read.
    values = values / max(float(np.abs(values).max()), 1e-12)
    acoustic, average, first, second, bonus, unknown, hesitation = values.tolist()
    scale = first + second
    return Weights(
        acoustic=acoustic, average=average, scale=scale, mix=second / scale if scale > 0 else 1.0,
        bonus=bonus, per_word=per_word, unknown=unknown, hesitation=hesitation,
    )  # fmt: skip
