"""From gradient norms to the weight of each group, and the sensitivity of the sum.

    flat       w_g = min(1, C / ||g||)                     sensitivity C
    automatic  w_g = C / (||g|| + gamma)                   sensitivity C
    per layer  w_kg = min(1, C_k / ||g_k||)                sensitivity sqrt(sum_k C_k^2)

Each style takes squared norms by layer, [layers, groups], from a `BookKeeper`. A group
with a norm that is not finite gets the weight 0: its gradient is zeroed before clipping.
Automatic: Bu, Wang, Zha, Karypis 2022. Per layer: McMahan, Ramage, Talwar, Zhang 2018.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from sottovoce._validate import at_least_one, positive
from sottovoce.errors import InvalidInput


class Clipping(Protocol):
    """A clipping style."""

    def weights(self, squared_norms: Tensor) -> Tensor:
        """[layers, groups] -> [groups], or [layers, groups] where layers differ."""

    def sensitivity(self) -> float:
        """The largest norm that a group's clipped gradient can have."""


@dataclass(frozen=True, kw_only=True)
class FlatClipping:
    """Scale a gradient down to `clip_norm` if it is longer.

    >>> import torch
    >>> FlatClipping(clip_norm=1.0).weights(torch.tensor([[16.0, 0.25, torch.nan]]))
    tensor([0.2500, 1.0000, 0.0000])
    """

    clip_norm: float

    def __post_init__(self) -> None:
        positive("clip_norm", self.clip_norm)

    def weights(self, squared_norms: Tensor) -> Tensor:
        squared = _checked(squared_norms).sum(0)
        return _zero_where_not_finite(_shorten(squared, self.clip_norm), squared)

    def sensitivity(self) -> float:
        return self.clip_norm


@dataclass(frozen=True, kw_only=True)
class AutomaticClipping:
    """Normalise every gradient to about `clip_norm`; `stability` is gamma, for tiny ones.

    >>> import torch
    >>> AutomaticClipping(clip_norm=1.0, stability=1.0).weights(torch.tensor([[9.0, 0.0]]))
    tensor([0.2500, 1.0000])
    """

    clip_norm: float
    stability: float = 0.01

    def __post_init__(self) -> None:
        positive("clip_norm", self.clip_norm)
        positive("stability", self.stability)

    def weights(self, squared_norms: Tensor) -> Tensor:
        squared = _checked(squared_norms).sum(0)
        weights = self.clip_norm / (squared.clamp(min=0).sqrt() + self.stability)
        return _zero_where_not_finite(weights, squared)

    def sensitivity(self) -> float:
        return self.clip_norm


@dataclass(frozen=True, kw_only=True)
class PerLayerClipping:
    """Clip the gradient of layer k to `clip_norms[k]`.

    >>> PerLayerClipping(clip_norms=(3.0, 4.0)).sensitivity()
    5.0
    """

    clip_norms: tuple[float, ...]

    def __post_init__(self) -> None:
        at_least_one("the number of clip_norms", len(self.clip_norms))
        for layer, clip_norm in enumerate(self.clip_norms):
            positive(f"clip_norms[{layer}]", clip_norm)

    @classmethod
    def equal(cls, clip_norm: float, layers: int) -> "PerLayerClipping":
        """Equal norms for all layers, with a total of `clip_norm`."""
        at_least_one("layers", layers)
        return cls(clip_norms=(clip_norm / math.sqrt(layers),) * layers)

    def weights(self, squared_norms: Tensor) -> Tensor:
        squared = _checked(squared_norms)
        if len(squared) != len(self.clip_norms):
            raise InvalidInput(
                f"Expected the norms of {len(self.clip_norms)} layers, got {len(squared)}."
            )
        limits = squared.new_tensor(self.clip_norms).unsqueeze(1)
        return _zero_where_not_finite(_shorten(squared, limits), squared.sum(0))

    def sensitivity(self) -> float:
        return math.hypot(*self.clip_norms)


def _checked(squared_norms: Tensor) -> Tensor:
    if squared_norms.dim() != 2:
        raise InvalidInput(
            f"Expected squared norms of shape [layers, groups], got {list(squared_norms.shape)}."
        )
    return squared_norms


def _shorten(squared: Tensor, clip_norm: float | Tensor) -> Tensor:
    """min(1, C / norm); rounding may make a squared norm slightly negative."""
    return (clip_norm / squared.clamp(min=0).sqrt()).clamp(max=1)


def _zero_where_not_finite(weights: Tensor, squared: Tensor) -> Tensor:
    return weights.masked_fill(~squared.isfinite(), 0)
