"""Metrics: semantic error rate, intent accuracy, slot F1, exact match, and their intervals."""

from sottovoce.nlu.metrics.bootstrap import Change, Interval, intervals, paired_change
from sottovoce.nlu.metrics.scores import (
    METRICS,
    Counts,
    Metric,
    Scores,
    count,
    relative_change,
    score,
)
from sottovoce.nlu.metrics.ser import (
    SemanticErrors,
    SlotSpan,
    SpanCounts,
    items_of,
    semantic_errors,
    slot_spans,
    spans_by_type,
)

__all__ = [
    "METRICS",
    "Change",
    "Counts",
    "Interval",
    "Metric",
    "Scores",
    "SemanticErrors",
    "SlotSpan",
    "SpanCounts",
    "count",
    "intervals",
    "items_of",
    "paired_change",
    "relative_change",
    "score",
    "semantic_errors",
    "slot_spans",
    "spans_by_type",
]
