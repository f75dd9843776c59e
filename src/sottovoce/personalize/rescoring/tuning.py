"""Weights with the fewest expected word errors on a development part.

The best of a thousand grid points overfits few lists. So the choice is relaxed to a softmax: a
hypothesis is chosen with probability exp(total) / sum exp(total), and the expected errors have a
gradient. An L2 penalty on the weights, each in units of the within-list spread of its part, keeps
unimportant weights small.

Even so, the weights would vary with the sample of clients. The result is therefore the mean over
several bootstrap samples of clients (bagging).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.vocabulary import Vector
from sottovoce.personalize.rescoring.scores import ScoreTable, Weights

# Acoustic and language model weights are non-negative; word weights may have either sign.
LEAST = (0.0, 0.0, 0.0, 0.0, -np.inf, -np.inf, -np.inf)

Parts = NDArray[np.float64]

DRAWS = 10


@dataclass(frozen=True)
class Fit:
    """One weight per part, and the penalised expected errors."""

    weights: Vector
    expected: float


def least_errors(
    parts: Parts,
    errors: NDArray[np.int64],
    absent: NDArray[np.bool_],
    least: Sequence[float] = LEAST,
    penalty: float = 1.0,
) -> Fit:
    """The weights of `parts` (lists x hypotheses x parts) with the fewest expected `errors`.

    The optimisation starts from the first part alone; `least` holds lower bounds of the weights.
    """
    present = ~absent
    means = (parts * present[..., None]).sum(axis=1) / present.sum(axis=1)[:, None]
    varying = np.where(absent[..., None], 0.0, parts - means[:, None])
    spread = np.sqrt((varying**2).sum(axis=(0, 1)) / present.sum())
    # Constant parts cannot matter and get weight 0.
    known = spread > 1e-12
    unit = np.where(known, spread, 1.0)
    units = varying / unit

    start = np.zeros(parts.shape[-1])
    start[0] = 1.0
    bounds = [(low, None) for low in least]
    given = (units, errors, absent, penalty)
    # 0.01 errors in 10,000 is accurate enough.
    found = minimize(
        expected_errors, start, given, "L-BFGS-B", jac=True, bounds=bounds, options={"ftol": 1e-6}
    )
    return Fit(np.where(known, found.x / unit, 0.0), float(found.fun))


def bagged(
    parts: Parts,
    errors: NDArray[np.int64],
    absent: NDArray[np.bool_],
    clients: NDArray[np.int64],
    least: Sequence[float] = LEAST,
    draws: int = DRAWS,
) -> Vector:
    """The mean weights over bootstrap samples of `clients`."""
    rng = np.random.default_rng(0)
    lists = [np.flatnonzero(clients == client) for client in np.unique(clients)]
    weights = []
    for _ in range(draws):
        rows = np.concatenate([lists[place] for place in rng.choice(len(lists), len(lists))])
        weights.append(least_errors(parts[rows], errors[rows], absent[rows], least).weights)
    mean: Vector = np.mean(weights, axis=0)
    return mean


def expected_errors(
    weights: Vector,
    units: Parts,
    errors: NDArray[np.int64],
    absent: NDArray[np.bool_],
    penalty: float,
) -> tuple[float, Vector]:
    """Expected errors of the softmax choice plus the penalty, and their gradient."""
    total = np.where(absent, -np.inf, units @ weights)
    chances = np.exp(total - total.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    risk = (chances * errors).sum(axis=1, keepdims=True)
    slope = np.tensordot(chances * (errors - risk), units)
    return float(risk.sum() + penalty * weights @ weights), slope + 2 * penalty * weights


def tune(tables: Mapping[float, ScoreTable]) -> tuple[float, Weights, int]:
    """The power and weights with the fewest expected errors, and their actual errors.

    `tables` has the scores of each power. Ties go to the first.
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
    values = bagged(table.parts(per_word=per_word), table.errors, table.absent, table.clients)
    weights = _named(values, per_word=per_word)
    return power, weights, table.count(weights)


def _named(values: Vector, *, per_word: bool) -> Weights:
    # Only proportions matter; scale the largest to 1 for readability.
    values = values / max(float(np.abs(values).max()), 1e-12)
    acoustic, average, first, second, bonus, unknown, hesitation = values.tolist()
    scale = first + second
    return Weights(
        acoustic=acoustic, average=average, scale=scale, mix=second / scale if scale > 0 else 1.0,
        bonus=bonus, per_word=per_word, unknown=unknown, hesitation=hesitation,
    )  # fmt: skip
