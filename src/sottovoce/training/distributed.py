"""Distributed training: what the ranks must agree on, and the sum of their shares.

Each worker adds its share of the noise before it sends anything.
"""

import hashlib
import importlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.sampling import SamplingKey
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

    All workers split their gradients the same way, because they have the same model.

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
    """Replace all tensors by their sums over all workers; a sum starts when its tensors arrive.

    The all-reduce is asynchronous, so it overlaps with adding noise to the next part.
    """
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


@dataclass(frozen=True)
class Worker:
    """This process among the workers; alone if torch.distributed is not initialised.

    Under torchrun every rank is a worker. All have the same sampling key, so they agree on every
    sample without communication. Each has its own noise key; equal keys are rejected, because their
    noise would not be independent.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def this(cls) -> "Worker":
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    @property
    def alone(self) -> bool:
        return self.count == 1

    def agree_on_key(self, key: SamplingKey) -> SamplingKey:
        """Broadcast the sampling key of rank 0."""
        if self.alone:
            return key
        secret = torch.frombuffer(bytearray(key.secret), dtype=torch.uint8)
        collective(dist.broadcast, secret, src=0)
        return SamplingKey(bytes(secret.tolist()), seeded=key.seeded)

    def check_noise(self, source: NoiseSource) -> None:
        """Raise if two workers have the same noise key."""
        gathered = self.gather(fingerprint=source.fingerprint)
        fingerprints = [each["fingerprint"] for each in gathered]
        if len(set(fingerprints)) < len(fingerprints):
            raise InvalidInput(
                "Expected a different noise key on every worker, got one key twice: the shares of "
                "the noise would not be independent. Seed workers differently, or not at all."
            )

    def agree(self, **facts: Any) -> None:
        """Raise on every rank if these facts differ between workers."""
        gathered = self.gather(**facts)
        different = [
            name for name in facts if any(each[name] != gathered[0][name] for each in gathered)
        ]
        if different:
            raise InvalidInput(
                "Expected all workers to train the same model on the same examples by the same "
                f"plan, got different {', '.join(different)}: give every rank the same arguments. "
                "Each rank selects its own share of the examples."
            )

    def gather(self, **facts: Any) -> list[dict[str, Any]]:
        """All-gather: the JSON-encoded facts of every rank, on every rank."""
        if self.alone:
            return [facts]
        mine = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)
        length = torch.tensor([len(mine)])
        lengths = [torch.zeros_like(length) for _ in range(self.count)]
        collective(dist.all_gather, lengths, length)
        longest = max(int(each) for each in lengths)
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(mine)] = mine
        texts = [torch.zeros_like(padded) for _ in range(self.count)]
        collective(dist.all_gather, texts, padded)
        return [
            json.loads(bytes(text[: int(size)].tolist()))
            for text, size in zip(texts, lengths, strict=True)
        ]

    def add_up(self, ready: Iterable[Sequence[Tensor]]) -> None:
        """Replace tensors by their sums over all workers, each as soon as it is ready."""
        if self.alone:
            for _ in ready:
                pass
        else:
            add_up(ready)

    def same_start(self, tensors: Sequence[Tensor]) -> None:
        """Broadcast the weights of rank 0."""
        if not self.alone:
            for tensor in tensors:
                collective(dist.broadcast, tensor, src=0)


def digest_of(names: Sequence[str]) -> str:
    """A hash of the names and their order; only workers see it."""
    digest = hashlib.sha256()
    for name in names:
        encoded = str(name).encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


def join_workers(backend: str | None = None) -> Worker:
    """Join the workers started by torchrun; without torchrun, return a single worker."""
    if "RANK" in os.environ and not dist.is_initialized():
        # Functions of this module have the group as a default argument. Imported after the group is
        # created, they would keep it alive, and `leave_workers` could not end its threads.
        importlib.import_module("torch.distributed.nn")
        dist.init_process_group(backend or ("nccl" if torch.cuda.is_available() else "gloo"))
    return Worker.this()


def leave_workers() -> None:
    """End the threads of the group, which could otherwise abort the process at exit.

    Delete other users of the group (DistributedDataParallel) first, or torch may hang later.
    """
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
