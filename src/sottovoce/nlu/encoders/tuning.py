"""Which part of an encoder is trained: none, the last layers, the biases, LoRA, or all of it.

The norm of the noise grows with the number of trained parameters, so private training often works
better with fewer of them. LoRA adds a low-rank product to a frozen layer: y = W x + s B A x, with B
initialised to zero. A and B are `nn.Linear` layers, so their gradients are clipped exactly.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.base import Encoder


class Tuned(StrEnum):
    """Trained part of an encoder."""

    FROZEN = "frozen"
    LAST = "last"
    BIAS = "bias"
    LORA = "lora"
    FULL = "full"


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """`layers` counts from the end (for `last`, and for `lora` if not all layers); `rank`,
    `strength` and `targets` (suffixes of module names) are LoRA's."""

    kind: Tuned = Tuned.FROZEN
    layers: int | None = None
    rank: int = 8
    strength: float = 16.0
    targets: tuple[str, ...] = ("query", "value")

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        _validate.at_least_one("rank", self.rank)
        _validate.positive("strength", self.strength)
        if self.layers is not None:
            _validate.at_least_one("layers", self.layers)
        if self.kind is Tuned.LAST and self.layers is None:
            raise InvalidInput("Expected a number of layers for the tuning last, got none.")
        if not self.targets:
            raise InvalidInput("Expected names of layers for LoRA, got none.")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "kind": str(self.kind), "targets": list(self.targets)}


def tuning_of(text: str) -> Tuning:
    """Parse frozen, bias, full, last-K, lora or lora-RANK.

    >>> tuning_of("last-2").layers, tuning_of("lora-4").rank
    (2, 4)
    """
    kind, _, number = text.partition("-")
    try:
        match kind, number:
            case (("frozen" | "bias" | "full" | "lora"), ""):
                return Tuning(kind=Tuned(kind))
            case "last", _:
                return Tuning(kind=Tuned.LAST, layers=int(number))
            case "lora", _:
                return Tuning(kind=Tuned.LORA, rank=int(number), strength=2.0 * int(number))
    except ValueError:
        pass
    raise InvalidInput(
        f"Expected the tuning frozen, last-K, bias, lora, lora-RANK or full, got {text!r}."
    )


class LoraLinear(nn.Module):
    """A frozen linear layer plus a trained low-rank product.

    >>> layer = LoraLinear(nn.Linear(4, 3), rank=2, strength=2.0)
    >>> x = torch.ones(1, 4)
    >>> bool(torch.equal(layer(x), layer.frozen(x)))
    True
    """

    def __init__(self, frozen: nn.Linear, rank: int, strength: float) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Linear(frozen.in_features, rank, bias=False)
        self.up = nn.Linear(rank, frozen.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.scale = strength / rank

    def forward(self, x: Tensor) -> Tensor:
        changed: Tensor = self.frozen(x) + self.scale * self.up(self.down(x))
        return changed

    @torch.no_grad()
    def merge(self) -> nn.Linear:
        """An equivalent plain layer."""
        plain = nn.Linear(
            self.frozen.in_features, self.frozen.out_features, self.frozen.bias is not None
        ).to(self.frozen.weight)
        plain.weight.copy_(self.frozen.weight + self.scale * self.up.weight @ self.down.weight)
        if plain.bias is not None:
            plain.bias.copy_(self.frozen.bias)
        return plain


def tune(encoder: Encoder, tuning: Tuning) -> None:
    """Set in place which parameters of an encoder are trained.

    Existing LoRA layers are merged first, so tuning can be applied repeatedly.
    """
    merge(encoder)
    encoder.requires_grad_(tuning.kind is Tuned.FULL)
    match tuning.kind:
        case Tuned.LAST:
            for block in _last(encoder, tuning.layers):
                block.requires_grad_(True)
        case Tuned.BIAS:
            for name, parameter in encoder.named_parameters():
                parameter.requires_grad_("bias" in name.rpartition(".")[2])
        case Tuned.LORA:
            places = (
                encoder if tuning.layers is None else nn.ModuleList(_last(encoder, tuning.layers))
            )
            _add_lora(places, tuning)


def merge(module: nn.Module) -> None:
    """Replace every LoRA layer, in place, by an equivalent plain layer."""
    for holder in list(module.modules()):
        for name, child in list(holder.named_children()):
            if isinstance(child, LoraLinear):
                setattr(holder, name, child.merge())


def merged_state(module: nn.Module) -> dict[str, Tensor]:
    """The state dict of a module with LoRA layers merged; the module is not changed."""
    state: dict[str, Tensor] = dict(module.state_dict())
    for name, child in module.named_modules():
        if isinstance(child, LoraLinear):
            for key in [key for key in state if key.startswith(f"{name}.")]:
                del state[key]
            for key, value in child.merge().state_dict().items():
                state[f"{name}.{key}"] = value
    return state


def trained_names(module: nn.Module) -> set[str]:
    """Names of the trained parameters in `merged_state`."""
    names = {name for name, p in module.named_parameters() if p.requires_grad}
    for name, child in module.named_modules():
        if isinstance(child, LoraLinear):
            names = {each for each in names if not each.startswith(f"{name}.")}
            names.add(f"{name}.weight")
    return names


def _last(encoder: Encoder, layers: int | None) -> list[nn.Module]:
    blocks = getattr(encoder, "blocks", None)
    if blocks is None:
        raise InvalidInput(f"Expected an encoder with layers to choose from, got {encoder.kind}.")
    found: list[nn.Module] = blocks()
    if layers is None or layers > len(found):
        raise InvalidInput(f"Expected at most {len(found)} layers to tune, got {layers}.")
    return found[-layers:]


def _add_lora(places: nn.Module, tuning: Tuning) -> None:
    found = [
        (holder, name, child)
        for holder in places.modules()
        for name, child in holder.named_children()
        if isinstance(child, nn.Linear) and name in tuning.targets
    ]
    if not found:
        raise InvalidInput(
            f"Expected linear layers named {' or '.join(tuning.targets)} for LoRA, found none."
        )
    for holder, name, child in found:
        setattr(holder, name, LoraLinear(child, tuning.rank, tuning.strength))
