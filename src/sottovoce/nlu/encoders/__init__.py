"""Encoders: one vector per word. `clc` needs torch only, `bert` also needs transformers."""

from typing import TYPE_CHECKING

from sottovoce._lazy import lazily
from sottovoce.nlu.encoders.registry import ENCODERS

if TYPE_CHECKING:
    from sottovoce.nlu.encoders.base import Encoded, Encoder, Prepared, encoder_from_json

__all__ = ["ENCODERS", "Encoded", "Encoder", "Prepared", "encoder_from_json"]

# Help texts list the encoders without loading torch.
__getattr__ = lazily(
    __name__,
    dict.fromkeys(
        ("Encoded", "Encoder", "Prepared", "encoder_from_json"), "sottovoce.nlu.encoders.base"
    ),
)
