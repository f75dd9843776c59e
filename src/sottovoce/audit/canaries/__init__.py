"""Canaries: records included in training by a secret fair coin, and bounds from guessing it."""

from sottovoce.audit.canaries.gradient import (
    DiracCanaries,
    GradientCanaries,
    RandomCanaries,
    gradient_scores,
)
from sottovoce.audit.canaries.one_run import Family, independent_canaries_audit, one_run_audit
from sottovoce.audit.canaries.text import (
    CanaryPairs,
    TextCanaries,
    fair_coins,
    read_canaries,
    text_canaries,
    write_canaries,
)

__all__ = [
    "CanaryPairs",
    "DiracCanaries",
    "Family",
    "GradientCanaries",
    "RandomCanaries",
    "TextCanaries",
    "fair_coins",
    "gradient_scores",
    "independent_canaries_audit",
    "one_run_audit",
    "read_canaries",
    "text_canaries",
    "write_canaries",
]
