"""De-identification: find private values, replace them, and state what the release costs.

>>> deid = Deidentifier(detector="gazetteer", setting=Setting(strategy="redact"))
>>> deid.release("call maria in london").text
'call [REDACTED] in [REDACTED]'
"""

from sottovoce.deid.alignment import Offsets, Replacement
from sottovoce.deid.deidentifier import Deidentifier, Release
from sottovoce.deid.detect import detector, evaluate
from sottovoce.deid.fields import Fields
from sottovoce.deid.labels import TYPES, LabelMap, read_labels
from sottovoce.deid.mappings import MAPPINGS, mapping
from sottovoce.deid.replace import Surrogates, Vault, public_surrogates, read_surrogates
from sottovoce.deid.statement import ReleaseStatement
from sottovoce.deid.strategies import Materials, Setting, Strategy

__all__ = [
    "MAPPINGS",
    "TYPES",
    "Deidentifier",
    "Fields",
    "LabelMap",
    "Materials",
    "Offsets",
    "Release",
    "ReleaseStatement",
    "Replacement",
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
