"""Finding private values: detectors, how several of them are combined, and how good they are."""

from sottovoce.deid.detect.combination import Combination, merged
from sottovoce.deid.detect.crf.tagger import Tagger
from sottovoce.deid.detect.detector import Detector, Gold
from sottovoce.deid.detect.evaluation import Evaluation, TypeRecall, evaluate
from sottovoce.deid.detect.gazetteer import Gazetteer
from sottovoce.deid.detect.patterns import Patterns
from sottovoce.deid.detect.registry import DETECTORS, detector

__all__ = [
    "DETECTORS",
    "Combination",
    "Detector",
    "Evaluation",
    "Gazetteer",
    "Gold",
    "Patterns",
    "Tagger",
    "TypeRecall",
    "detector",
    "evaluate",
    "merged",
]
