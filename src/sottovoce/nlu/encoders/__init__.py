"""Encoders: words in, one vector a word out. `clc` needs torch alone, `bert` transformers."""

from sottovoce.nlu.encoders.base import Encoded, Encoder, Prepared, encoder_from_json

__all__ = ["Encoded", "Encoder", "Prepared", "encoder_from_json"]
