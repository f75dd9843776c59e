"""Adaptation factors: how much more a user says a word than the background does (paper, eq. 1, 2).

g_i = (1 - alpha - beta) u + alpha q_bar + beta q_i, and the factor of a word is (g_i / u)^lambda.
The adapted model is p(w|h) (g_i/u)^lambda / Z(h). The paper leaves Z out; it is cheap to compute,
so exact normalisation is the default (`normalised`) and the shortcut is `shortcut`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.vocabulary import Vector


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """The weights of a mixture of background, everybody and oneself.

    `clip` bounds the absolute log factor, so that no single word can decide a sentence.

    >>> u = np.array([0.5, 0.5])
    >>> said = np.array([0.9, 0.1])
    >>> factor = Adaptation(alpha=0.0, beta=0.5, power=1.0).log_factors(u, u, said)
    >>> np.exp(factor).round(3).tolist()
    [1.4, 0.6]
    """

    alpha: float = 0.5
    beta: float = 0.25
    power: float = 0.5
    clip: float | None = None
    normalise: bool = True

    def __post_init__(self) -> None:
        _validate.probability("alpha", self.alpha)
        _validate.probability("beta", self.beta)
        _validate.not_negative("power", self.power)
        if self.alpha + self.beta > 1 + 1e-12:
            raise InvalidInput(f"Expected alpha + beta <= 1, got {self.alpha:g} + {self.beta:g}.")
        if self.clip is not None:
            _validate.positive("clip", self.clip)

    def mixture(self, background: Vector, everybody: Vector, personal: Vector) -> Vector:
        """g_i of equation 2."""
        rest = max(0.0, 1 - self.alpha - self.beta)
        mixed: Vector = rest * background + self.alpha * everybody + self.beta * personal
        return mixed

    def log_factors(self, background: Vector, everybody: Vector, personal: Vector) -> Vector:
        """lambda ln(g_i / u) for every word."""
        mixed = self.mixture(background, everybody, personal)
        # A word without any mass would get minus infinity; the smallest float stands for it.
        tiny = np.finfo(np.float64).tiny
        factors: Vector = self.power * (np.log(np.maximum(mixed, tiny)) - np.log(background))
        return factors if self.clip is None else np.clip(factors, -self.clip, self.clip)


def shortcut(log_probabilities: Vector, log_factors: Vector) -> Vector:
    """The paper's unnormalised scores, ln p(w|h) + ln factor(w)."""
    return log_probabilities + log_factors


def normalised(log_probabilities: Vector, log_factors: Vector) -> Vector:
    """The adapted distribution itself: the shortcut minus ln Z(h), along the last axis.

    >>> adapted = normalised(np.log([0.5, 0.5]), np.log([3.0, 1.0]))
    >>> np.exp(adapted).round(3).tolist()
    [0.75, 0.25]
    """
    raised = log_probabilities + log_factors
    adapted: Vector = raised - logsumexp(raised, axis=-1, keepdims=True)
    return adapted
