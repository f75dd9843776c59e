"""Metrics by name, in addition to the four standard scores.

A metric compares the reference and the hypothesis of one utterance and returns a numerator and a
denominator. The score of a corpus is the ratio of their sums, so confidence intervals can be
computed from the counts alone.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sottovoce._registry import Registry
from sottovoce.corpora import Utterance

DISPLAY_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "ser": "semantic error rate",
        "intent_accuracy": "intent accuracy",
        "slot_f1": "slot F1",
        "exact_match": "exact match",
    }
)
"""JSON key of each standard score -> its name in tables."""

Metric = Callable[[Utterance, Utterance], tuple[float, float]]

METRICS: Registry[Metric] = Registry(
    "metric",
    {
        "slot_precision": "sottovoce.nlu.metrics.ser:slot_precision",
        "slot_recall": "sottovoce.nlu.metrics.ser:slot_recall",
    },
    group="sottovoce.metrics",
    reserved=tuple(DISPLAY_NAMES),
)
