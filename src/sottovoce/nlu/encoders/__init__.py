"""Encoders: one vector per word. `clc` needs torch only, `bert` also needs transformers."""

from typing import TYPE_CHECKING

from sottovoce._extras import lazily
from sottovoce._registry import Registry
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    from sottovoce.nlu.encoders.base import Encoded, Encoder, Prepared, encoder_from_json

__all__ = ["ENCODERS", "Encoded", "Encoder", "Prepared", "encoder_from_json"]


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


# Help texts list the encoders without loading torch.
__getattr__ = lazily(
    __name__,
    dict.fromkeys(
        ("Encoded", "Encoder", "Prepared", "encoder_from_json"), "sottovoce.nlu.encoders.base"
    ),
)
