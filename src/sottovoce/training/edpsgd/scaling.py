"""The layer scales alpha_k of eDP-SGD, and their private sources.

A layer with large gradients is divided by a large alpha before clipping, so that it does not use up
the clip norm of the others. Scales must not come from a private gradient without noise. Private
sources are ones, shapes, a public batch, or a noisy release that the ledger accounts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from sottovoce import _validate
from sottovoce.errors import InvalidInput

# The smallest scale relative to the mean: a layer with almost no gradient must not be divided by
# almost zero.
SMALLEST_SHARE = 1e-2


@dataclass(frozen=True)
class LayerScales:
    """One scale per layer (a module that directly holds parameters), in the model's order.

    >>> scales = LayerScales.ones(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)))
    >>> scales.names, scales.alpha
    (('0', '1'), (1.0, 1.0))
    """

    names: tuple[str, ...]
    alpha: tuple[float, ...]
    layer_of: tuple[int, ...]
    """The layer of every trainable parameter."""

    def __post_init__(self) -> None:
        # Convert to tuples: a list could be changed between accounting and clipping.
        _validate.parse_fields(self)
        for alpha in self.alpha:
            _validate.positive("each of alpha", alpha)
        if len(self.alpha) != len(self.names):
            raise InvalidInput(
                f"Expected a scale for each of {len(self.names)} layers, got {len(self.alpha)}."
            )
        if any(not 0 <= layer < len(self.names) for layer in self.layer_of):
            raise InvalidInput(
                f"Expected layer_of from 0 to {len(self.names) - 1}, got {list(self.layer_of)}."
            )

    def at_most(self, limit: float | None) -> "LayerScales":
        """The same scales, none of them above `limit`.

        >>> LayerScales.ones(nn.Linear(2, 2)).at_most(0.5).alpha
        (0.5,)
        """
        return (
            self if limit is None else replace(self, alpha=tuple(min(a, limit) for a in self.alpha))
        )

    @classmethod
    def ones(cls, model: nn.Module) -> "LayerScales":
        names: list[str] = []
        layer_of: list[int] = []
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                layer = name.rpartition(".")[0]
                if layer not in names:
                    names.append(layer)
                layer_of.append(names.index(layer))
        if not names:
            raise InvalidInput("Expected a model with trainable parameters, got none.")
        return cls(tuple(names), (1.0,) * len(names), tuple(layer_of))

    @classmethod
    def from_shapes(cls, model: nn.Module) -> "LayerScales":
        """In proportion to the square root of a layer's size, as for entries of equal variance."""
        ones = cls.ones(model)
        sizes = [0] * len(ones.names)
        parameters = (p for p in model.parameters() if p.requires_grad)
        for layer, parameter in zip(ones.layer_of, parameters, strict=True):
            sizes[layer] += parameter.numel()
        return ones.proportional_to([math.sqrt(size) for size in sizes])

    @classmethod
    def from_public(cls, model: nn.Module, loss: Callable[[], Tensor]) -> "LayerScales":
        """In proportion to the gradient norms of a loss on *public* examples."""
        ones = cls.ones(model)
        parameters = [p for p in model.parameters() if p.requires_grad]
        gradients = torch.autograd.grad(loss(), parameters, allow_unused=True)
        filled = [
            torch.zeros_like(parameter) if gradient is None else gradient
            for parameter, gradient in zip(parameters, gradients, strict=True)
        ]
        return ones.proportional_to(ones.norms(filled).tolist())

    def proportional_to(self, norms: Sequence[float]) -> "LayerScales":
        """Scales in proportion to these, with a mean square of 1.

        A norm of exactly zero says nothing about later steps: below a head that is initialised to
        zero, no layer has a gradient at first. Such a layer gets the average scale. A negative
        norm, which only noise can cause, counts as small.

        >>> LayerScales(("below", "head"), (1.0, 1.0), (0, 1)).proportional_to([0.0, 3.0]).alpha
        (1.0, 1.0)
        """
        known = {k: max(norm, 0.0) for k, norm in enumerate(norms) if norm and math.isfinite(norm)}
        mean = math.sqrt(sum(norm**2 for norm in known.values()) / max(len(known), 1))
        alpha = tuple(
            max(known[k] / mean, SMALLEST_SHARE) if mean and k in known else 1.0
            for k in range(len(norms))
        )
        return LayerScales(self.names, alpha, self.layer_of)

    def norms(self, gradients: Sequence[Tensor]) -> Tensor:
        """[layers] the gradient norm of every layer."""
        by_parameter = torch.stack(torch._foreach_norm(list(gradients))).float()
        layers = torch.tensor(self.layer_of, device=by_parameter.device)
        squared = by_parameter.new_zeros(len(self.names))
        return squared.index_add_(0, layers, by_parameter**2).sqrt_()

    def scaled_norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """The norm of the gradient with every layer divided by its scale."""
        by_parameter = torch.stack(torch._foreach_norm(list(gradients))).float()
        scales = by_parameter.new_tensor(self.by_parameter())
        norm: Tensor = torch.linalg.vector_norm(by_parameter / scales)
        return norm

    def by_parameter(self) -> list[float]:
        """The scale of every trainable parameter."""
        return [self.alpha[layer] for layer in self.layer_of]
