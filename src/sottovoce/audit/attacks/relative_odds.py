"""RMIA, the robust membership inference attack (Zarifzadeh, Liu and Shokri 2023).

A record x is compared with records z of the population:
    score(x) = fraction of z with  [p(x|target) / p(x)] / [p(z|target) / p(z)] >= gamma,
where p(x) is the mean probability over reference models. One or two of them are enough.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from sottovoce import _validate
from sottovoce.audit._checks import Flags, Scores
from sottovoce.audit.attacks.references import ReferenceScores
from sottovoce.audit.scoring import log_probabilities
from sottovoce.errors import InvalidInput

NAME = "RMIA"
# The paper's correction of p(x) from models not trained on x, which is too small on average.
OFFLINE_FACTOR = 0.3


def rmia(
    target: ArrayLike,
    references: ReferenceScores,
    *,
    population: Flags | None = None,
    gamma: float = 1.0,
    offline: bool = False,
) -> Scores:
    """The fraction of the population that each record beats, one number from 0 to 1 per record.

    `population` marks the columns that serve as z (by default all; the attacker need not know which
    are members). With `offline`, p(x) uses only models not trained on x. All records are compared
    with the same z, so they are ranked by their ratio, and gamma only changes the scale.

    >>> references = ReferenceScores(np.log([[0.9, 0.6], [0.5, 0.9], [0.8, 0.7], [0.6, 0.95]]),
    ...                              np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=bool))
    >>> rmia(np.log([0.85, 0.65]), references).tolist()        # the first was in training
    [1.0, 0.5]
    """
    _validate.positive("gamma", gamma)
    log_p = log_probabilities(target, references.scores.shape[1])
    ratios = log_p - (_offline_mean(references) if offline else _online_mean(references))
    others = ratios if population is None else ratios[population]
    if others.size == 0:
        raise InvalidInput("Expected at least one record in the population, got none.")
    beaten = np.searchsorted(np.sort(others), ratios - np.log(gamma), side="right")
    shares: Scores = beaten / others.size
    return shares


def _online_mean(references: ReferenceScores) -> Scores:
    """ln of the mean over models trained on the record and not, with equal weight."""
    inside = _log_mean(references.scores, references.included)
    outside = _log_mean(references.scores, ~references.included)
    mean: Scores = np.logaddexp(inside, outside) - np.log(2)
    return mean


def _offline_mean(references: ReferenceScores) -> Scores:
    """ln of ((1 + a) p_out + 1 - a) / 2: an estimate of the online mean."""
    outside = _log_mean(references.scores, ~references.included)
    scaled = np.log1p(OFFLINE_FACTOR) + outside
    mean: Scores = np.logaddexp(scaled, np.log1p(-OFFLINE_FACTOR)) - np.log(2)
    return mean


def _log_mean(scores: Scores, chosen: Flags) -> Scores:
    counts = chosen.sum(axis=0)
    if counts.min() == 0:
        raise InvalidInput(
            "Expected every record in some reference models and not in others, got "
            f"{int((counts == 0).sum())} records without one of the two."
        )
    weighted = np.where(chosen, np.maximum(scores, -700.0), -np.inf)
    mean: Scores = logsumexp(weighted, axis=0) - np.log(counts)
    return mean
