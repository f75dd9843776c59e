"""Encoders made from public material: masked text, and labelled corpora."""

from sottovoce.nlu.pretraining.labelled import LabelledPlan, adapt, chosen
from sottovoce.nlu.pretraining.loop import Pretrained, Watching
from sottovoce.nlu.pretraining.making import (
    has_reading,
    learn_reading,
    load_reading,
    reading_files,
)
from sottovoce.nlu.pretraining.masked import Guessing, MaskedPlan, guess

__all__ = [
    "Guessing",
    "LabelledPlan",
    "MaskedPlan",
    "Pretrained",
    "Watching",
    "adapt",
    "chosen",
    "guess",
    "has_reading",
    "learn_reading",
    "load_reading",
    "reading_files",
]
