"""Facts about executed mechanisms, one kind per file; see `fact` for the concept."""

from sottovoce.privacy.facts.fact import Fact, fact_from_json
from sottovoce.privacy.facts.noisy_sum import (
    SMALLEST_NOISE,
    Assignment,
    Contribution,
    NoisySum,
    Sampling,
    ScaleSource,
)
from sottovoce.privacy.facts.noisy_vector import Noise, NoisyVector, amplified
from sottovoce.privacy.facts.releases import BoundedRelease, MetricRelease, Unprotected
from sottovoce.privacy.facts.replaced_tokens import ReplacedTokens, SurrogateSource

__all__ = [
    "SMALLEST_NOISE",
    "Assignment",
    "BoundedRelease",
    "Contribution",
    "Fact",
    "MetricRelease",
    "Noise",
    "NoisySum",
    "NoisyVector",
    "ReplacedTokens",
    "Sampling",
    "ScaleSource",
    "SurrogateSource",
    "Unprotected",
    "amplified",
    "fact_from_json",
]
