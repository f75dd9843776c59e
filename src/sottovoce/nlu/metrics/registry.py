"""Metrics by name, beside the four scores that are always taken.

A metric looks at one utterance, as it should be and as it was labelled, and returns a numerator and
a denominator. The score of a corpus is the sum of the one over the sum of the other, so that
intervals need no second look.
"""

from collections.abc import Callable

from sottovoce._registry import Registry
from sottovoce.corpora import Utterance
from sottovoce.nlu.metrics.score_names import SCORE_NAMES

Metric = Callable[[Utterance, Utterance], tuple[float, float]]

METRICS: Registry[Metric] = Registry(
    "metric",
    {
        "slot_precision": "sottovoce.nlu.metrics.ser:slot_precision",
        "slot_recall": "sottovoce.nlu.metrics.ser:slot_recall",
    },
    group="sottovoce.metrics",
    reserved=tuple(SCORE_NAMES),
)
