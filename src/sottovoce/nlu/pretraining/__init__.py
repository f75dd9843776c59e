"""Pretraining of encoders on public data: masked language modelling, and labelled corpora."""

from sottovoce.nlu.pretraining.job import (
    fit_readout,
    has_readout,
    load_readout,
    readout_files,
)
from sottovoce.nlu.pretraining.labelled import LabelledPlan, adapt, chosen
from sottovoce.nlu.pretraining.loop import LoopOptions, Pretrained
from sottovoce.nlu.pretraining.masked import MaskedPlan, MaskedResult, pretrain_masked

__all__ = [
    "LabelledPlan",
    "LoopOptions",
    "MaskedPlan",
    "MaskedResult",
    "Pretrained",
    "adapt",
    "chosen",
    "fit_readout",
    "has_readout",
    "load_readout",
    "pretrain_masked",
    "readout_files",
]
