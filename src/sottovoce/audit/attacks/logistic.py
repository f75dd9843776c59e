"""Logistic regression, the attack model of the shadow attack.

Newton's method on standardised features with a ridge penalty: deterministic, without a learning
rate, and fast, because there are only about a dozen features.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from sottovoce.audit import _checks
from sottovoce.audit._checks import Flags, Scores

RIDGE = 1.0
STEPS = 50


@dataclass(frozen=True, eq=False)
class Logistic:
    """Log-odds of membership, linear in standardised features."""

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
