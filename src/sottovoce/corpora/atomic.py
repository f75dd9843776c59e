"""Outputs that appear whole or not at all: see `sottovoce.io.atomic`, where they live."""

from sottovoce.io.atomic import output, outputs, text_output

__all__ = ["output", "outputs", "text_output"]
