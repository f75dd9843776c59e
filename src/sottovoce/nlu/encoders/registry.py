"""Encoders by name: what `--model` chooses, and what a saved model says it has.

Nothing here loads torch.
"""

from typing import TYPE_CHECKING

from sottovoce._registry import Registry
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    from sottovoce.nlu.encoders.base import Encoder


def _check(name: str, encoder: "type[Encoder]") -> None:
    if getattr(encoder, "kind", None) != name:
        raise InvalidInput(
            f"Expected an encoder of kind {name!r}, the name that it is saved under, got "
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
