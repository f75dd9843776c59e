"""What the scores of a model are called; apart, because it is needed where nothing is computed."""

from collections.abc import Mapping
from types import MappingProxyType

SCORE_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "ser": "semantic error rate",
        "intent_accuracy": "intent accuracy",
        "slot_f1": "slot F1",
        "exact_match": "exact match",
    }
)
"""As JSON has them, and as people read them."""
