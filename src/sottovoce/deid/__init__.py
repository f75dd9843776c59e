"""De-identification: find private values, replace them, and state what the release costs.

>>> deid = Deidentifier(detector="gazetteer", setting=Setting(strategy="redact"))
>>> deid.release("call maria in london").text
'call [REDACTED] in [REDACTED]'
"""

from sottovoce.deid.deidentifier import Deidentifier, Release
from sottovoce.deid.detect import DETECTORS, detector, evaluate
from sottovoce.deid.detect.labels import MAPPINGS, TYPES, LabelMap, mapping, read_labels
from sottovoce.deid.files.alignment import Offsets, Replacement
from sottovoce.deid.files.fields import Fields
from sottovoce.deid.guard import Guard
from sottovoce.deid.replace import Surrogates, Vault, public_surrogates, read_surrogates
from sottovoce.deid.replace.sources import SOURCES
from sottovoce.deid.replace.strategies import STRATEGIES, Fit, Resources, Setting, Strategy
from sottovoce.deid.statement.release_statement import ReleaseStatement

__all__ = [
    "DETECTORS",
    "MAPPINGS",
    "SOURCES",
    "STRATEGIES",
    "TYPES",
    "Deidentifier",
    "Fields",
    "Fit",
    "Guard",
    "LabelMap",
    "Offsets",
    "Release",
    "ReleaseStatement",
    "Replacement",
    "Resources",
    "Setting",
    "Strategy",
    "Surrogates",
    "Vault",
    "detector",
    "evaluate",
    "mapping",
    "public_surrogates",
    "read_labels",
    "read_surrogates",
]
