"""Replacement of private values: mechanisms, one per file, and the surrogates they draw from."""

from sottovoce.deid.replace.consistent import Consistent, ConsistentNames, ConsistentNumbers
from sottovoce.deid.replace.counted import PrivateHistogram
from sottovoce.deid.replace.dates import DateShift
from sottovoce.deid.replace.kernel import Kernel, WithinClass
from sottovoce.deid.replace.mechanism import Cost, Mechanism, Scope, channel_epsilon
from sottovoce.deid.replace.numbers import FormatPreserving
from sottovoce.deid.replace.placeholders import Placeholder
from sottovoce.deid.replace.public import public_surrogates
from sottovoce.deid.replace.response import TruncatedResponse
from sottovoce.deid.replace.semantic import SemanticExponential
from sottovoce.deid.replace.surrogates import Surrogates, from_corpus, read_surrogates, uniform
from sottovoce.deid.replace.vault import Vault

__all__ = [
    "Consistent",
    "ConsistentNames",
    "ConsistentNumbers",
    "Cost",
    "DateShift",
    "FormatPreserving",
    "Kernel",
    "Mechanism",
    "Placeholder",
    "PrivateHistogram",
    "Scope",
    "SemanticExponential",
    "Surrogates",
    "TruncatedResponse",
    "Vault",
    "WithinClass",
    "channel_epsilon",
    "from_corpus",
    "public_surrogates",
    "read_surrogates",
    "uniform",
]
