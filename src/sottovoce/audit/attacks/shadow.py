"""The shadow attack (Shokri et al. 2017), as the eDP-SGD paper runs it.

A shadow model is trained on another, public corpus, where membership is known. An attack model
learns to predict membership from the shadow model's scores, and is then applied to those of the
audited model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from sottovoce import _validate
from sottovoce.audit import _checks
from sottovoce.audit._checks import Flags, Scores
from sottovoce.audit.scoring import log_odds
from sottovoce.errors import InvalidInput

RIDGE = 1.0
STEPS = 50


@dataclass(frozen=True, eq=False)
class Logistic:
    """The attack model: logistic regression on standardised features.

    Fitted by Newton's method with a ridge penalty: deterministic, without a learning rate, and
    fast, because there are only about a dozen features.
    """

    weights: Scores
    centre: Scores
    spread: Scores

    @classmethod
    def fit(cls, features: Scores, labels: Flags) -> "Logistic":
        """Maximise the penalised likelihood; the intercept is not penalised.

        >>> model = Logistic.fit(np.array([[0.0], [1.0], [2.0], [3.0]]),
        ...                      np.array([False, False, True, True]))
        >>> (model.log_odds(np.array([[0.5], [2.5]])) > 0).tolist()
        [False, True]
        """
        centre, spread = features.mean(axis=0), features.std(axis=0)
        # A constant feature has no information; any non-zero scale works.
        spread = np.where(spread > 0, spread, 1.0)
        model = cls(np.zeros(features.shape[1] + 1), centre, spread)
        design = model._design(features)
        penalty = np.full(design.shape[1], RIDGE)
        penalty[0] = 1e-9
        weights = model.weights
        for _ in range(STEPS):
            p = expit(design @ weights)
            gradient = design.T @ (p - labels) + penalty * weights
            curvature = (design.T * (p * (1 - p))) @ design + np.diag(penalty)
            step = np.linalg.solve(curvature, gradient)
            weights = weights - step
            if np.abs(step).max() < 1e-10:
                break
        return cls(weights, centre, spread)

    def log_odds(self, features: Scores) -> Scores:
        _checks.table("the features", features, columns=len(self.centre))
        odds: Scores = self._design(features) @ self.weights
        return odds

    def _design(self, features: Scores) -> Scores:
        scaled = (features - self.centre) / self.spread
        return np.column_stack([np.ones(len(features)), scaled])


NAME = "shadow"


def sorted_features(
    intents: ArrayLike,
    slots: Sequence[ArrayLike] | None = None,
    *,
    intent_width: int = 3,
    slot_width: int = 8,
) -> Scores:
    """Features of the attack model: sorted scores as log-odds, one row per record.

    Sorting makes the features comparable between models with different labels.

    `intents` holds the probabilities of all intents, one row per record; `slots` one table per
    record, with a row of label probabilities per token. The best `intent_width` intents are kept.
    Each token is represented by its best label; the least certain `slot_width` tokens are kept, and
    a shorter utterance is padded with its most certain one.

    >>> sorted_features([[0.2, 0.8]], [[[0.9, 0.1], [0.4, 0.6]]], intent_width=2,
    ...                 slot_width=3).round(2).tolist()
    [[1.39, -1.39, 0.41, 2.2, 2.2]]
    """
    _validate.at_least_one("intent_width", intent_width)
    _validate.at_least_one("slot_width", slot_width)
    table = _probabilities("the intent scores", intents)
    best = -np.sort(-table, axis=1)[:, :intent_width]
    # The other corpus may have fewer intents; missing ones get probability 0.
    best = np.pad(best, ((0, 0), (0, intent_width - best.shape[1])))
    columns = [_odds(best)]
    if slots is not None:
        if len(slots) != len(table):
            raise InvalidInput(
                f"Expected slot scores of {len(table)} records, as of the intents, got "
                f"{len(slots)}."
            )
        columns.append(_odds(np.stack([_certainties(each, slot_width) for each in slots])))
    return np.hstack(columns)


@dataclass(frozen=True, eq=False)
class ShadowAttack:
    """An attack model, trained on the scores of a shadow model.

    >>> attack = ShadowAttack.fit(sorted_features([[0.9, 0.1], [0.95, 0.05]]),
    ...                           sorted_features([[0.6, 0.4], [0.7, 0.3]]))
    >>> scores = attack.score(sorted_features([[0.5, 0.5], [0.99, 0.01]]))
    >>> bool(scores[1] > scores[0])
    True
    """

    model: Logistic

    @classmethod
    def fit(cls, members: ArrayLike, non_members: ArrayLike) -> "ShadowAttack":
        """Fit to the shadow model's features of its own members and non-members."""
        inside = _checks.table("the shadow members' features", members)
        outside = _checks.table(
            "the shadow non-members' features", non_members, columns=inside.shape[1]
        )
        labels = np.arange(len(inside) + len(outside)) < len(inside)
        return cls(Logistic.fit(np.vstack([inside, outside]), labels))

    def score(self, features: ArrayLike) -> Scores:
        """Log-odds of membership from the audited model's features."""
        return self.model.log_odds(_checks.table("the features", features))


def _certainties(labels: ArrayLike, width: int) -> Scores:
    best = np.sort(_probabilities("the slot scores of a record", labels).max(axis=1))[:width]
    return np.pad(best, (0, width - len(best)), mode="edge")


def _probabilities(name: str, values: ArrayLike) -> Scores:
    table = _checks.table(name, values)
    if table.min() < 0 or table.max() > 1 + 1e-6:
        raise InvalidInput(f"Expected {name} as probabilities from 0 to 1.")
    return np.minimum(table, 1.0)


def _odds(probabilities: Scores) -> Scores:
    return log_odds(np.log(np.maximum(probabilities, 1e-12)))
