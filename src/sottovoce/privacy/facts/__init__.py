"""Facts about executed mechanisms; see `fact` for the concept."""

from sottovoce.privacy.facts.fact import Fact, fact_from_json
from sottovoce.privacy.facts.noisy_sum import (
    SMALLEST_NOISE,
    Assignment,
    Contribution,
    Noise,
    NoisySum,
    NoisyVector,
    Sampling,
    ScaleSource,
    amplified,
)
from sottovoce.privacy.facts.releases import (
    BoundedRelease,
    MetricRelease,
    ReplacedTokens,
    SurrogateSource,
    Unprotected,
)

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
