"""Secure Gaussian noise for tensors, added in place to a whole model at once.

CPU tensors are viewed as numpy arrays, without a copy, and get their noise in one call. For other
tensors (on a GPU, non-contiguous, in bfloat16) the noise is drawn on the CPU into a scratch buffer
of bounded size and copied.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource, gaussian_add_each

# The type in which the noise for a tensor is drawn. For bfloat16 (8 bits of precision), noise is
# added in float32 and the sum is rounded once.
DRAWN_AS = {
    torch.float32: torch.float32,
    torch.float64: torch.float64,
    torch.bfloat16: torch.float32,
}
# Noise values in the scratch buffer: one or two megabytes.
SCRATCH = 1 << 18


class Noisy(NamedTuple):
    """A tensor and the standard deviation of its noise."""

    tensor: Tensor
    std: float


class TensorNoise:
    """Adds noise from one source to tensors.

    >>> weight, bias = torch.zeros(200, 300), torch.zeros(200)
    >>> TensorNoise(NoiseSource.seeded(7)).add([weight, bias], 2.0)
    >>> round(weight.std().item(), 1), bool(bias.all())
    (2.0, True)
    """

    def __init__(self, source: NoiseSource) -> None:
        self.source = source

    def add(self, tensors: Sequence[Tensor], stds: float | Sequence[float]) -> None:
        """Add independent noise of these standard deviations to every element, in place.

        Autograd does not record the addition, but detects that the tensors were changed in place.
        """
        if isinstance(stds, float | int):
            stds = [stds] * len(tensors)
        if len(stds) != len(tensors):
            raise InvalidInput(
                f"Expected one std for each of {len(tensors)} tensors, got {len(stds)}."
            )
        for std in stds:
            _validate.not_negative("std", std)
        direct: list[Noisy] = []
        indirect: list[Noisy] = []
        for i, (tensor, std) in enumerate(zip(tensors, stds, strict=True)):
            ordered = (
                tensor if _is_numpy_writable(tensor) else _in_memory_order(_checked(i, tensor))
            )
            (direct if _is_numpy_writable(ordered) else indirect).append(
                Noisy(ordered.detach(), std)
            )
        self._add_directly(direct)
        for group in _groups(indirect):
            self._add_through_scratch(group)

    def _add_directly(self, noisy: list[Noisy]) -> None:
        arrays = [tensor.numpy() for tensor, _ in noisy]
        gaussian_add_each(arrays, [std for _, std in noisy], self.source)
        # Torch does not notice writes by numpy. Without this, a backward pass that needs the old
        # values would silently use the new ones.
        increment_version([tensor for tensor, _ in noisy if not tensor.is_inference()])

    def _add_through_scratch(self, group: list[Noisy]) -> None:
        noise = [torch.zeros(tensor.shape, dtype=DRAWN_AS[tensor.dtype]) for tensor, _ in group]
        arrays = [drawn.numpy() for drawn in noise]
        gaussian_add_each(arrays, [std for _, std in group], self.source)
        for (tensor, _), drawn in zip(group, noise, strict=True):
            tensor.copy_(drawn.to(tensor.device).add_(tensor))


def _is_numpy_writable(tensor: Tensor) -> bool:
    """Whether numpy can write to the whole tensor and nothing else."""
    return (
        (tensor.dtype == torch.float32 or tensor.dtype == torch.float64)
        and tensor.is_cpu
        and tensor.layout == torch.strided
        and tensor.is_contiguous()
        and not tensor.is_neg()
    )


def _checked(i: int, tensor: Tensor) -> Tensor:
    if tensor.dtype not in DRAWN_AS:
        raise InvalidInput(
            f"Expected tensors of float32, float64 or bfloat16, got {tensor.dtype} for tensor {i}."
        )
    if tensor.layout != torch.strided:
        raise InvalidInput(f"Expected dense tensors, got {tensor.layout} for tensor {i}.")
    if any(step == 0 and n > 1 for n, step in zip(tensor.shape, tensor.stride(), strict=True)):
        raise InvalidInput(
            f"Expected separate memory for every element, got an expanded tensor {i}: "
            "clone it first."
        )
    return tensor


def _in_memory_order(tensor: Tensor) -> Tensor:
    """A view in memory order, in which a transposed matrix is contiguous."""
    return tensor.permute(sorted(range(tensor.dim()), key=tensor.stride, reverse=True))


def _groups(noisy: Iterable[Noisy]) -> Iterator[list[Noisy]]:
    """Groups of pieces whose noise fits into the scratch buffer."""
    group: list[Noisy] = []
    room = SCRATCH
    for tensor, std in noisy:
        for piece in _pieces(tensor):
            if piece.numel() > room:
                yield group
                group, room = [], SCRATCH
            group.append(Noisy(piece, std))
            room -= piece.numel()
    if group:
        yield group


def _pieces(tensor: Tensor) -> Iterator[Tensor]:
    """Views that cover the tensor, none larger than the scratch buffer."""
    if tensor.numel() <= SCRATCH:
        yield tensor
        return
    longest = max(range(tensor.dim()), key=tensor.size)
    for half in tensor.chunk(2, longest):
        yield from _pieces(half)
