"""Asynchronous all-reduce, overlapped with adding noise to the next part of the gradient.

A part has its noise before it leaves its worker. All workers split their gradients the same way,
because they have the same model.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from sottovoce.training.errors import WorkerLost

# An all-reduce has a fixed cost, so small tensors share one. A large tensor is split: one piece is
# sent while the next gets its noise.
SMALL, PIECE = 1 << 16, 1 << 20


class Part(NamedTuple):
    """Tensors that are summed together, and the standard deviations of their noise."""

    tensors: list[Tensor]
    stds: list[float]


def parts(tensors: Sequence[Tensor], stds: Sequence[float]) -> Iterator[Part]:
    """Views that cover all tensors: small ones in one part, large ones split.

    >>> weight, bias, scale = torch.zeros(3, 2**20), torch.zeros(3), torch.zeros(3)
    >>> [[len(t) for t in part.tensors] for part in parts([weight, bias, scale], [1.0, 1.0, 1.0])]
    [[3, 3], [1048576], [1048576], [1048576]]
    """
    small, large = Part([], []), []
    for tensor, std in zip(tensors, stds, strict=True):
        if tensor.numel() >= SMALL and tensor.is_contiguous():
            large += [Part([piece], [std]) for piece in torch.split(tensor.view(-1), PIECE)]
        else:
            small.tensors.append(tensor)
            small.stds.append(std)
    if small.tensors:
        yield small
    yield from large


def add_up(ready: Iterable[Sequence[Tensor]]) -> None:
    """Replace all tensors by their sums over all workers; a sum starts when its tensors arrive."""
    pending: list[tuple[Any, Tensor, Sequence[Tensor]]] = []
    for tensors in ready:
        in_place = len(tensors) == 1 and tensors[0].is_contiguous()
        flat = tensors[0] if in_place else torch.cat([tensor.reshape(-1) for tensor in tensors])
        work = collective(dist.all_reduce, flat, async_op=True)
        pending.append((work, flat, () if in_place else tensors))
    for work, flat, tensors in pending:
        collective(work.wait)
        summed = torch.split(flat, [tensor.numel() for tensor in tensors]) if tensors else ()
        for tensor, values in zip(tensors, summed, strict=True):
            tensor.copy_(values.view_as(tensor))


def collective(operation: Any, *arguments: Any, **options: Any) -> Any:
    """Call a collective operation; raise `WorkerLost` if a worker has failed."""
    try:
        return operation(*arguments, **options)
    except RuntimeError as problem:
        raise WorkerLost(
            "Expected all workers to take part in this step, but one has failed; nothing of the "
            "step was released. Resume from the last checkpoint; the spent budget stays counted."
        ) from problem
