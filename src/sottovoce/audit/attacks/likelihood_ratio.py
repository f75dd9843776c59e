"""LiRA, the likelihood-ratio attack (Carlini et al. 2022).

For each record, the log-odds under the reference models are modelled as normal, once for the models
trained on it (online only) and once for the others. With few models the variance is pooled over
records, as the paper advises; the means stay per record.
"""

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.audit._checks import Flags, Scores
from sottovoce.audit.attacks.references import ReferenceScores
from sottovoce.audit.scoring import log_odds, log_probabilities
from sottovoce.errors import InvalidInput

ONLINE = "LiRA, online"
OFFLINE = "LiRA, offline"
# With fewer models on a side, a standard deviation per record is mostly noise.
ENOUGH_MODELS = 32


def lira(target: ArrayLike, references: ReferenceScores) -> Scores:
    """Online LiRA: the log-likelihood ratio of "in" against "out", one number per record.

    >>> references = ReferenceScores(np.log([[0.9, 0.6], [0.5, 0.9], [0.8, 0.7], [0.6, 0.95]]),
    ...                              np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=bool))
    >>> lira(np.log([0.85, 0.65]), references).round(2).tolist()   # the first was in training
    [12.44, -6.87]
    """
    found = _target(target, references)
    odds = log_odds(references.scores)
    inside, outside = references.included, ~references.included
    return _log_density(found, odds, inside) - _log_density(found, odds, outside)


def lira_offline(target: ArrayLike, references: ReferenceScores) -> Scores:
    """Offline LiRA: the deviation from the models not trained on the record, in units of their
    standard deviation.

    It needs no model trained on the record, so references can be trained before the records to
    attack are known.
    """
    found = _target(target, references)
    centre, spread = _normal(log_odds(references.scores), ~references.included)
    deviation: Scores = (found - centre) / spread
    return deviation


def _target(target: ArrayLike, references: ReferenceScores) -> Scores:
    return log_odds(log_probabilities(target, references.scores.shape[1]))


def _log_density(found: Scores, odds: Scores, chosen: Flags) -> Scores:
    centre, spread = _normal(odds, chosen)
    density: Scores = -(((found - centre) / spread) ** 2) / 2 - np.log(spread)
    return density


def _normal(odds: Scores, chosen: Flags) -> tuple[Scores, Scores]:
    """Mean and standard deviation of each record over the chosen models."""
    counts = chosen.sum(axis=0)
    if counts.min() == 0:
        raise InvalidInput(
            "Expected every record in some reference models and not in others, got "
            f"{int((counts == 0).sum())} records without one of the two."
        )
    centre = np.where(chosen, odds, 0.0).sum(axis=0) / counts
    squares = (np.where(chosen, odds - centre, 0.0) ** 2).sum(axis=0)
    if counts.min() >= ENOUGH_MODELS:
        spread = np.sqrt(squares / (counts - 1))
    else:
        freedom = int((counts - 1).sum())
        # One model per side has no spread, so only the means are compared.
        pooled = np.sqrt(squares.sum() / freedom) if freedom else 1.0
        spread = np.full(centre.shape, pooled)
    # Avoid division by zero if all models agree.
    return centre, np.maximum(spread, 1e-6)
