"""Workers of a distributed run: what ranks must agree on, and the sum of their shares.

Under torchrun every rank is a worker. All have the same sampling key, so they agree on every sample
without communication. Each has its own noise key (equal keys are rejected, because their noise
would not be independent) and adds its share of the noise before it sends anything.
"""

import hashlib
import importlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.sampling import SamplingKey
from sottovoce.training.distributed.all_reduce import add_up, collective


@dataclass(frozen=True)
class Worker:
    """This process among the workers; alone if torch.distributed is not initialised."""

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
