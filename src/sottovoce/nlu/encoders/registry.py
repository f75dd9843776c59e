"""Encoders by name, as used by `--model` and in saved models. This module does not load torch."""

from typing import TYPE_CHECKING

from sottovoce._registry import Registry
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    from sottovoce.nlu.encoders.base import Encoder


def _check(name: str, encoder: "type[Encoder]") -> None:
    if getattr(encoder, "kind", None) != name:
        raise InvalidInput(
            f"Expected an encoder whose kind is its registered name {name!r}, got "
            f"{getattr(encoder, 'kind', encoder)!r}."
        )


ENCODERS: "Registry[type[Encoder]]" = Registry(
    "model",
    {
        "clc": "sottovoce.nlu.encoders.clc:Clc",
        "bert": "sottovoce.nlu.encoders.bert:Bert",
    },
    group="sottovoce.encoders",
    check=_check,
)
