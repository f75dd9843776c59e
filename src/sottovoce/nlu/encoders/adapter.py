"""The shipped adapter: a small public change to MiniLM, and heads that score labels by name.

The change is a low-rank product per layer in 8 bits. The file also holds a few hundred public
utterances, from which the statistics of the readout are computed when the adapter is loaded. What
it was made from is in its metadata; `sottovoce.nlu.pretraining.shipping` makes it again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.bert import Bert
from sottovoce.nlu.encoders.label_names import NameHeads
from sottovoce.nlu.encoders.tuning import LoraLinear

ADAPTED = "adapted-minilm"
"""Name of the encoder: MiniLM with the shipped adapter."""
FILE = "minilm.adapter"
SUFFIX = ".adapter"
_HEADS = "heads."
_LEVELS = 127


@dataclass(frozen=True, eq=False, kw_only=True)
class Adapter:
    """`changes` are the factors (down, up) of each changed layer, `heads` score labels by name,
    `utterances` are public text for statistics, `about` says what it was made from."""

    changes: Mapping[str, tuple[Tensor, Tensor]]
    heads: NameHeads
    utterances: tuple[tuple[str, ...], ...]
    about: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        encoder: Bert,
        heads: NameHeads,
        utterances: tuple[tuple[str, ...], ...],
        about: Mapping[str, Any],
    ) -> Self:
        """The adapter that the LoRA layers of an encoder make up."""
        changes = {
            name: (child.down.weight.detach(), child.scale * child.up.weight.detach())
            for name, child in encoder.network.named_modules()
            if isinstance(child, LoraLinear)
        }
        return cls(changes=changes, heads=heads, utterances=utterances, about=about)

    @torch.no_grad()
    def apply(self, encoder: Bert) -> None:
        """Change the weights of an encoder in place."""
        layers = dict(encoder.network.named_modules())
        for name, (down, up) in self.changes.items():
            weight = getattr(layers.get(name), "weight", None)
            if not isinstance(weight, Tensor) or weight.shape != (len(up), down.shape[1]):
                raise InvalidInput(
                    f"Expected an encoder with a layer {name} of {len(up)} by {down.shape[1]} for "
                    "this adapter, got another: use it with MiniLM."
                )
            weight += up @ down

    def to_bytes(self) -> bytes:
        from safetensors.torch import save

        tensors: dict[str, Tensor] = {}
        for name, (down, up) in self.changes.items():
            tensors |= _rounded(f"{name}.down", down) | _rounded(f"{name}.up", up)
        for name, weight in self.heads.state_dict().items():
            tensors |= _rounded(f"{_HEADS}{name}", weight.reshape(-1, weight.shape[-1]))
        metadata = {
            "about": json.dumps(self.about, ensure_ascii=False),
            "utterances": "\n".join(" ".join(tokens) for tokens in self.utterances),
        }
        return save(tensors, metadata)

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), "pt") as opened:
                metadata = opened.metadata() or {}
                tensors = {
                    name: opened.get_tensor(name).float() * opened.get_tensor(f"{name}.scale")
                    for name in opened.keys()  # noqa: SIM118
                    if not name.endswith(".scale")
                }
            utterances = tuple(
                tuple(line.split()) for line in metadata["utterances"].split("\n") if line
            )
            about = json.loads(metadata["about"])
            changed = sorted({name.rpartition(".")[0] for name in tensors if _HEADS not in name})
            changes = {name: (tensors[f"{name}.down"], tensors[f"{name}.up"]) for name in changed}
            heads = NameHeads(tensors[f"{_HEADS}slot.weight"].shape[0])
            heads.load_state_dict(
                {
                    name: tensors[f"{_HEADS}{name}"].reshape(weight.shape)
                    for name, weight in heads.state_dict().items()
                }
            )
        except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as problem:
            raise InvalidInput(
                f"Expected an adapter in {path}, but it cannot be read."
            ) from problem
        return cls(
            changes=changes, heads=heads.requires_grad_(False), utterances=utterances, about=about
        )


def is_adapter(encoder: str) -> bool:
    """Whether an encoder is MiniLM with an adapter: the shipped one, or one in a file.

    >>> is_adapter("adapted-minilm"), is_adapter("my.adapter"), is_adapter("minilm")
    (True, True, False)
    """
    return encoder == ADAPTED or encoder.endswith(SUFFIX)


def load_adapter(encoder: str) -> Adapter:
    """The shipped adapter, or that of a file."""
    shipped = str(files("sottovoce.nlu.encoders") / FILE)
    return Adapter.from_file(shipped if encoder == ADAPTED else encoder)


def load_encoder(name: str) -> Bert:
    """An encoder by name: MiniLM with an adapter, or what `Bert.load` reads."""
    if not is_adapter(name):
        return Bert.load(name)
    encoder = Bert.load()
    load_adapter(name).apply(encoder)
    return encoder.reading(encoder.layers, encoder.summary, source=name)


def _rounded(name: str, weight: Tensor) -> dict[str, Tensor]:
    """A matrix in 8 bits, with a scale per row."""
    scale = (weight.abs().amax(1, keepdim=True) / _LEVELS).clamp(min=1e-12)
    return {
        name: (weight / scale).round().to(torch.int8).contiguous(),
        f"{name}.scale": scale.float().contiguous(),
    }
