"""The weights of a CRFsuite model, read from its file: exact, and without CRFsuite.

The file has a header, a list of features (a weight each), and two tables of names: of labels and of
attributes. Every integer is little-endian and has 32 bits. A feature of type 0 belongs to an
attribute and a label, one of type 1 to two labels that follow each other.
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import InvalidInput

Scores = NDArray[np.float64]

_HEADER = struct.Struct("<4sI4s9I")
_CHUNK = 12  # bytes before the features: a name, the size, the number of features
_NAMES = struct.Struct("<4s5I")
_VERSION = 100
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])


@dataclass(frozen=True, eq=False)
class Weights:
    """`states[attributes[a], y]` for an attribute at a word of label y, `transitions[y, next]`."""

    labels: tuple[str, ...]
    attributes: dict[str, int]
    states: Scores
    transitions: Scores


def read_weights(model: bytes) -> Weights:
    """Read the model; anything but one of CRFsuite is refused."""
    try:
        magic, size, kind, version, *rest = _HEADER.unpack_from(model)
        if (magic, kind, version) != (b"lCRF", b"FOMC", _VERSION) or size != len(model):
            raise ValueError(f"{magic!r} of {size} bytes, version {version}")
        _, label_count, attribute_count, at_features, at_labels, at_attributes, *_ = rest
        labels = _names(model, at_labels, label_count)
        attributes = _names(model, at_attributes, attribute_count)
        count: int = struct.unpack_from("<4sII", model, at_features)[2]
        found = np.frombuffer(model, _FEATURE, count, at_features + _CHUNK)
        states = np.zeros((attribute_count, label_count))
        transitions = np.zeros((label_count, label_count))
        for table, number in ((states, 0), (transitions, 1)):
            chosen: Any = found[found["type"] == number]
            table[chosen["source"], chosen["target"]] = chosen["weight"]
    except (struct.error, ValueError, IndexError) as problem:
        raise InvalidInput(f"Expected a model of CRFsuite, got {problem}.") from problem
    if not np.isfinite(states).all() or not np.isfinite(transitions).all():
        raise InvalidInput("Expected finite weights in a model, got others.")
    return Weights(
        tuple(labels), {name: place for place, name in enumerate(attributes)}, states, transitions
    )


def rounded(model: bytes, step: float = 1 / 128) -> bytes:
    """The model with weights that are multiples of a step: the file then packs several times
    smaller, and small weights are gone."""
    read_weights(model)
    at_features: int = _HEADER.unpack_from(model)[7]
    count: int = struct.unpack_from("<4sII", model, at_features)[2]
    altered = bytearray(model)
    found: Any = np.frombuffer(altered, _FEATURE, count, at_features + _CHUNK)
    found["weight"] = np.round(found["weight"] / step) * step
    return bytes(altered)


def _names(model: bytes, start: int, count: int) -> list[str]:
    """The names of a table by their numbers; an array at its end says where each one stands."""
    magic, _, _, _, size, offset = _NAMES.unpack_from(model, start)
    if magic != b"CQDB" or size < count:
        raise ValueError(f"a table of {size} names, {count} of them expected")
    places = np.frombuffer(model, "<u4", count, start + offset).tolist()
    names = []
    for place in places:
        _, length = struct.unpack_from("<II", model, start + place)
        begin = start + place + 8
        names.append(model[begin : begin + length - 1].decode())
    return names
