"""From the losses of a step to the clipped sum, divided by its configured size.

`ExactGradient` clips all groups of a piece at once by book-keeping. `OneByOneGradient` runs one
plain backward pass per group: for the textbook loop over examples, and for the workers of eDP-SGD,
which scale, clip and rescale their mean gradient. `PlainGradient` does not clip.

Clipped sums are stored separately from `p.grad` (see `totals`), which stays empty until they have
noise.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor, nn

from sottovoce.errors import InvalidInput
from sottovoce.training.batches import Piece
from sottovoce.training.checks.forms import Form
from sottovoce.training.checks.ownership import refuse_gradients
from sottovoce.training.clipping.bookkeeping import BookKeeper, backward_to
from sottovoce.training.clipping.coverage import why_never
from sottovoce.training.clipping.styles import Clipping
from sottovoce.training.clipping.totals import ClippedSums, SumsByRows, TableGradients, Tables
from sottovoce.training.edpsgd.scaling import LayerScales
from sottovoce.training.errors import UnsupportedLayer
from sottovoce.training.kernel.backends import backends


class Gradient(Protocol):
    """Collects the pieces of one step."""

    def begin(self) -> None: ...

    @contextmanager
    def piece(self, piece: Piece) -> Iterator[None]:
        """A context for the forward and backward pass of one piece."""

    def backward(self, losses: Tensor, piece: Piece) -> None: ...

    def finish(self) -> list[Tensor]:
        """The sum over groups, divided by the configured size, for every parameter."""


class ClippedGradient(Gradient, Protocol):
    """A gradient whose sum has a known sensitivity, which `checks.neighbours` verifies."""

    by_group: bool
    """Whether several groups go through the model together."""
    averages: bool
    """Whether the mean over a group is clipped, not its sum."""
    divisor: int
    norms: Tensor
    """[groups] the recorded norms of the last piece, if known."""

    @property
    def clipped(self) -> float:
        """The root of the sum of the squared norms of all clipped contributions."""

    @property
    def sensitivity(self) -> float:
        """How much one group may change the sum, in the norm of `measure`."""

    @contextmanager
    def apart(self, only: int | None = None) -> Iterator[ClippedSums]:
        """Collect pieces into separate sums that are neither divided nor released.

        Those of large tables are sparse. With `only`, they hold what this group contributes, where
        several go through the model together.
        """

    def factors(self, gradients: Sequence[Tensor]) -> list[float]:
        """What clipping multiplies the gradients of one group by, one factor a parameter."""

    def measure(self, tensors: Sequence[Tensor]) -> float:
        """The norm in which the sensitivity is stated."""

    def form(self) -> Form:
        """What the sensitivity depends on in the last piece: layers, modes, and sizes."""


class _WithSums:
    """Clipped sums that can be put aside while others are collected."""

    _sums: ClippedSums
    _parameters: list[nn.Parameter]
    _only: int | None = None
    divisor: int

    def finish(self) -> list[Tensor]:
        return self._sums.tensors(self._parameters)

    @contextmanager
    def apart(self, only: int | None = None) -> Iterator[ClippedSums]:
        kept = self._sums, self._only, self.divisor
        self._sums, self._only, self.divisor = SumsByRows(), only, 1
        try:
            yield self._sums
        finally:
            self._sums, self._only, self.divisor = kept


class ExactGradient(_WithSums):
    """One backward pass per piece; every group is clipped by its exact norm."""

    by_group = True
    averages = True

    def __init__(
        self, model: nn.Module, clipping: Clipping, divisor: int, *, repeatable: bool = True
    ) -> None:
        """If it need not be `repeatable` to the last bit, products are computed the faster way."""
        self._keeper = BookKeeper(model)
        self._repeatable = repeatable
        self._parameters = trainable(model)
        self._sums = ClippedSums(TableGradients())
        self._clipping = clipping
        self.divisor = divisor
        self.norms = torch.zeros(0)
        self._clipped = torch.zeros(0)

    @property
    def sensitivity(self) -> float:
        return self._clipping.sensitivity()

    def begin(self) -> None:
        self._sums.clear()

    @contextmanager
    def piece(self, piece: Piece) -> Iterator[None]:
        groups = piece.groups if piece.count < len(piece.examples) else None
        racing = backends.racing(allowed=not self._repeatable)
        with racing, self._keeper.record(groups, count=piece.count):
            yield

    def backward(self, losses: Tensor, piece: Piece) -> None:
        self._keeper.backward(losses)
        # Clip the mean over the units of a group; for one unit that is the unit itself.
        sizes = piece.sizes.to(losses.device)
        squares = self._keeper.squared_norms_by_layer() / sizes**2
        self.norms = squares.sum(0).clamp(min=0).sqrt()
        weights = self._clipping.weights(squares)
        self._clipped = (weights**2 * squares).view(-1, piece.count).sum(0)
        if self._only is not None:
            weights = weights * (torch.arange(piece.count, device=weights.device) == self._only)
        self._keeper.accumulate(weights / (sizes * self.divisor), self._sums)

    @property
    def clipped(self) -> float:
        finite = torch.nan_to_num(self._clipped, nan=0.0, posinf=0.0)
        return math.sqrt(max(0.0, float(finite.sum())))

    def factors(self, gradients: Sequence[Tensor]) -> list[float]:
        squares = self._keeper.squares_by_layer(gradients)
        layers = self._keeper.layers_of_parameters
        if not bool(squares.isfinite().all()):
            return [0.0] * len(layers)
        weights = self._clipping.weights(squares)
        of_layers = weights.flatten() if weights.dim() == 2 else weights.expand(len(squares))
        factors: list[float] = of_layers[layers].tolist()
        return factors

    def measure(self, tensors: Sequence[Tensor]) -> float:
        return float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(list(tensors)))))

    def form(self) -> Form:
        return self._keeper.form


class OneByOneGradient(_WithSums):
    """One plain backward pass per group: scale by 1/alpha_k, clip to C, rescale, sum."""

    by_group = False
    averages: bool
    norms = torch.zeros(0)

    def __init__(
        self, model: nn.Module, scales: LayerScales, clip_norm: float, divisor: int, *, mean: bool
    ) -> None:
        refuse_mixing(model)
        self._model = model
        self._parameters = trainable(model)
        self._scales = scales
        self._clip_norm = clip_norm
        self.divisor = divisor
        self.averages = mean
        # The textbook loop over examples uses no special tables.
        self._tables = Tables(model if mean else nn.Module())
        self._sums = ClippedSums(TableGradients())
        self._form = Form()
        self._group: list[Tensor | None] = [None] * len(self._parameters)

    @property
    def sensitivity(self) -> float:
        return self._clip_norm

    def begin(self) -> None:
        refuse_mixing(self._model)  # its mode may have changed
        self._sums.clear()
        self._group = [None] * len(self._parameters)

    @contextmanager
    def piece(self, piece: Piece) -> Iterator[None]:
        if piece.count != 1:
            raise InvalidInput(f"Expected one group at a time, got {piece.count}.")
        with self._tables.by_rows():
            yield

    def backward(self, losses: Tensor, piece: Piece) -> None:
        check_losses(losses, piece)
        total = losses.sum() / piece.sizes[0] if self.averages else losses.sum()
        self._group = own_gradients(total, self._parameters, self._group)
        if piece.closes:
            self._close_group()

    def factors(self, gradients: Sequence[Tensor]) -> list[float]:
        return [self._factor(self._scales.scaled_norm(gradients))] * len(gradients)

    def measure(self, tensors: Sequence[Tensor]) -> float:
        return float(self._scales.scaled_norm(tensors))

    @property
    def clipped(self) -> float:
        return self._clip_norm

    def form(self) -> Form:
        modes = tuple([(id(each), each.training) for each in self._model.modules()])
        if modes != self._form.structure:
            self._form = Form(modes)
        return self._form

    def _factor(self, norm: Tensor) -> float:
        """The clipping factor; a gradient whose norm is not finite is excluded."""
        if not bool(norm.isfinite()):
            return 0.0
        return min(1.0, self._clip_norm / max(float(norm), 1e-38))

    @torch.no_grad()
    def _close_group(self) -> None:
        gradients = [
            rows_or_all(parameter, gradient)
            for parameter, gradient in zip(self._parameters, self._group, strict=True)
        ]
        self._group = [None] * len(self._parameters)
        values = [each.values() if each.is_sparse else each for each in gradients]
        factor = self._factor(self._scales.scaled_norm(values)) / self.divisor
        if factor == 0:
            # NaN times zero is NaN, so clear the gradient itself.
            torch._foreach_zero_(values)
        # Scaling by 1/alpha and back cancels out: clipping is one factor for all layers.
        for parameter, gradient, value in zip(self._parameters, gradients, values, strict=True):
            if gradient.is_sparse:
                table = self._sums.of(parameter)
                table.index_add_(0, gradient.indices()[0], value.to(table.dtype), alpha=factor)
            elif factor:
                self._sums.add_scaled(parameter, value, factor)


class PlainGradient:
    """The mean over the batch, without clipping, for the baseline."""

    def __init__(self, model: nn.Module, divisor: int) -> None:
        self._parameters = trainable(model)
        self._divisor = divisor

    def begin(self) -> None:
        _clear(self._parameters)

    @contextmanager
    def piece(self, piece: Piece) -> Iterator[None]:
        yield

    def backward(self, losses: Tensor, piece: Piece) -> None:
        check_losses(losses, piece)
        (losses.sum() / self._divisor).backward()  # type: ignore[no-untyped-call]

    def finish(self) -> list[Tensor]:
        return [
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for parameter in self._parameters
        ]


def refuse_mixing(model: nn.Module) -> None:
    """Raise for layers that mix the examples of a batch or store them (BatchNorm)."""
    reasons = {
        name or type(module).__name__: reason
        for name, module in model.named_modules()
        if (reason := why_never(module)) is not None
    }
    if reasons:
        raise UnsupportedLayer(reasons)


def trainable(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def check_losses(losses: Tensor, piece: Piece) -> None:
    if losses.shape != (len(piece.examples),):
        raise InvalidInput(
            f"Expected one loss for each of {len(piece.examples)} examples, got losses of shape "
            f"{list(losses.shape)}: use reduction='none', and the mean over words only."
        )


def dense(gradient: Tensor) -> Tensor:
    return gradient.to_dense() if gradient.is_sparse else gradient


def _clear(parameters: Sequence[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.grad = None


def own_gradients(
    total: Tensor, parameters: Sequence[nn.Parameter], so_far: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Add the gradients of these parameters from a backward pass; nothing else gets a gradient.

    `p.grad` is empty before and after, so that unclipped gradients are not accessible.
    """
    refuse_gradients(parameters)
    if not total.requires_grad:
        return list(so_far)
    try:
        for parameter, held in zip(parameters, so_far, strict=True):
            parameter.grad = held
        backward_to(total, parameters)
        return [parameter.grad for parameter in parameters]
    finally:
        _clear(parameters)


def rows_or_all(parameter: nn.Parameter, gradient: Tensor | None) -> Tensor:
    """The gradient: dense, or sparse with distinct rows."""
    if gradient is None:
        return torch.zeros_like(parameter)
    if not gradient.is_sparse:
        return gradient
    return gradient.coalesce() if gradient.sparse_dim() == 1 else gradient.to_dense()
