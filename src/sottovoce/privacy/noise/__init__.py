"""Noise from a cryptographically secure generator, keyed by the operating system.

All randomness in this package comes from a `NoiseSource`; the functions here turn its bits into the
distributions that guarantees rely on.
"""

from sottovoce.privacy.guarantee import SEEDED_STAMP
from sottovoce.privacy.noise.discrete import (
    Categorical,
    discrete_gaussian,
    discrete_laplace,
    keep_or_replace,
    randomised_response,
)
from sottovoce.privacy.noise.gaussian import (
    gaussian,
    gaussian_add,
    gaussian_add_each,
    gaussian_into,
)
from sottovoce.privacy.noise.laplace import laplace
from sottovoce.privacy.noise.source import NoiseSource

__all__ = [
    "SEEDED_STAMP",
    "Categorical",
    "NoiseSource",
    "discrete_gaussian",
    "discrete_laplace",
    "gaussian",
    "gaussian_add",
    "gaussian_add_each",
    "gaussian_into",
    "keep_or_replace",
    "laplace",
    "randomised_response",
]
