"""Encoders: words in, one vector a word out. `clc` needs torch alone, `bert` transformers."""

from typing import TYPE_CHECKING, Any

from sottovoce.nlu.encoders.registry import ENCODERS

if TYPE_CHECKING:
    from sottovoce.nlu.encoders.base import Encoded, Encoder, Prepared, encoder_from_json

__all__ = ["ENCODERS", "Encoded", "Encoder", "Prepared", "encoder_from_json"]


def __getattr__(name: str) -> Any:
    # The names of encoders are wanted where torch is not: in a page of help.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sottovoce.nlu.encoders import base

    return getattr(base, name)
