"""From the losses of a step to the clipped sum, divided by its configured size, in `p.grad`.

`ExactGradient` clips every group of a piece at once by book-keeping. `OneByOneGradient` makes one
plain backward pass a group: the loop over examples of the textbook, and the workers of eDP-SGD,
which scale, clip and rescale their mean gradient. `PlainGradient` clips nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor, nn

from sottovoce.errors import InvalidInput
from sottovoce.training.batches import Piece
from sottovoce.training.bookkeeping import BookKeeper
from sottovoce.training.clipping import Clipping
from sottovoce.training.coverage import why_never
from sottovoce.training.errors import UnsupportedLayer
from sottovoce.training.scaling import LayerScales
from sottovoce.training.tables import TableGradients, Tables


class Gradient(Protocol):
    """Collects the pieces of one step."""

    def begin(self) -> None: ...

    @contextmanager
    def piece(self, piece: Piece) -> Iterator[None]:
        """The forward and backward pass of one piece happen inside of this."""

    def backward(self, losses: Tensor, piece: Piece) -> None: ...

    def finish(self) -> None:
        """Leave the sum over groups, divided by the configured size, in every `p.grad`."""


class ExactGradient:
    """One backward pass a piece; every group is clipped by its exact norm."""

    def __init__(self, model: nn.Module, clipping: Clipping, divisor: int) -> None:
        self._keeper = BookKeeper(model, TableGradients())
        self._parameters = trainable(model)
        self._clipping = clipping
        self._divisor = divisor

    def begin(self) -> None:
        _clear(self._parameters)

    @contextmanager
    def piece(self, piece: Piece) -> Iterator[None]:
        groups = piece.groups if piece.count < len(piece.examples) else None
        with self._keeper.record(groups, count=piece.count):
            yield

    def backward(self, losses: Tensor, piece: Piece) -> None:
        self._keeper.backward(losses)
        # What is clipped is the mean over the units of a group; for one unit that is itself.
        sizes = piece.sizes.to(losses.device)
        norms = self._keeper.squared_norms_by_layer() / sizes**2
        self._keeper.accumulate(self._clipping.weights(norms) / (sizes * self._divisor))

    def finish(self) -> None:
        _fill(self._parameters)


class OneByOneGradient:
    """One plain backward pass a group: scale by 1/alpha_k, clip to C, rescale, add up."""

    def __init__(
        self, model: nn.Module, scales: LayerScales, clip_norm: float, divisor: int, *, mean: bool
    ) -> None:
        refuse_mixing(model)
        self._parameters = trainable(model)
        self._scales = scales
        self._clip_norm = clip_norm
        self._divisor = divisor
        self._mean = mean
        # The loop over examples stays as plain as the textbook has it.
        self._tables = Tables(model if mean else nn.Module())
        self._table_gradients = TableGradients()
        self._sums: list[Tensor] | None = None

    def begin(self) -> None:
        self._sums = None
        _clear(self._parameters)

    @contextmanager
    def piece(self, piece: Piece) -> Iterator[None]:
        if piece.count != 1:
            raise InvalidInput(f"Expected one group at a time, got {piece.count}.")
        with self._tables.by_rows():
            yield

    def backward(self, losses: Tensor, piece: Piece) -> None:
        check_losses(losses, piece)
        total = losses.sum() / piece.sizes[0] if self._mean else losses.sum()
        total.backward()  # type: ignore[no-untyped-call]
        if piece.closes:
            self._close_group()

    def finish(self) -> None:
        if self._sums is not None:
            for parameter, total in zip(self._parameters, self._sums, strict=True):
                parameter.grad = total
        _fill(self._parameters)

    @torch.no_grad()
    def _close_group(self) -> None:
        _fill(self._parameters)
        gradients = [_rows_or_all(parameter) for parameter in self._parameters]
        values = [each.values() if each.is_sparse else each for each in gradients]
        norm = self._scales.scaled_norm(values)
        if not bool(norm.isfinite()):
            # A NaN would spread through a product with zero, so the gradient itself is cleared.
            torch._foreach_zero_(values)
            factor = 0.0
        else:
            factor = min(1.0, self._clip_norm / max(float(norm), 1e-38)) / self._divisor
        # Scaling by 1/alpha and back by alpha cancels out: clipping is one factor for all layers.
        if self._sums is None:
            self._sums = [
                self._table_gradients.zeros(parameter) if gradient.is_sparse else gradient
                for parameter, gradient in zip(self._parameters, gradients, strict=True)
            ]
        for total, gradient, value in zip(self._sums, gradients, values, strict=True):
            if gradient.is_sparse:
                total.index_add_(0, gradient.indices()[0], value, alpha=factor)
            elif total is gradient:
                total.mul_(factor)
            else:
                total.add_(value, alpha=factor)
        _clear(self._parameters)


class PlainGradient:
    """The mean over the batch, for the baseline."""

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

    def finish(self) -> None:
        _fill(self._parameters)


def refuse_mixing(model: nn.Module) -> None:
    """Refuse layers that mix the examples of a batch, or remember them (BatchNorm)."""
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


def _clear(parameters: Sequence[nn.Parameter]) -> None:
    for parameter in parameters:
        parameter.grad = None


def _fill(parameters: Sequence[nn.Parameter]) -> None:
    """A parameter that a step did not use has a zero gradient, which gets noise like any other."""
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)


def _rows_or_all(parameter: nn.Parameter) -> Tensor:
    """The gradient: dense, or sparse in its rows, each of them once."""
    gradient = parameter.grad
    assert gradient is not None
    if not gradient.is_sparse:
        return gradient
    return gradient.coalesce() if gradient.sparse_dim() == 1 else gradient.to_dense()
