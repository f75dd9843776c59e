"""Many workers: what ranks have to agree on, and how their shares become one sum.

Under torchrun every rank is a worker. All hold the same sampling key (so they agree on every sample
without a word), each has a noise key of its own (two equal ones are refused: their noise would not
be independent), and each adds its share of the noise before anything leaves it.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from sottovoce.errors import InvalidInput, SottovoceError
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.sampling import SamplingKey

# Smaller tensors are summed together: each sum has a fixed cost.
_LARGE = 1 << 16


class WorkerLost(SottovoceError):
    """Another worker died; nothing of the step was released."""


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
        """The sampling key of rank 0, everywhere."""
        if self.alone:
            return key
        secret = torch.frombuffer(bytearray(key.secret), dtype=torch.uint8)
        _together(dist.broadcast, secret, src=0)
        return SamplingKey(bytes(secret.tolist()), seeded=key.seeded)

    def check_noise(self, source: NoiseSource) -> None:
        """Refuse two workers with one noise key."""
        told = self.gather(fingerprint=source.fingerprint)
        fingerprints = [each["fingerprint"] for each in told]
        if len(set(fingerprints)) < len(fingerprints):
            raise InvalidInput(
                "Expected a noise key of its own on every worker, got one key twice: equal noise "
                "adds up to more and hides less. Seed workers differently, or not at all."
            )

    def gather(self, **facts: Any) -> list[dict[str, Any]]:
        """What every rank says, as JSON, on every rank."""
        if self.alone:
            return [facts]
        mine = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)
        length = torch.tensor([len(mine)])
        lengths = [torch.zeros_like(length) for _ in range(self.count)]
        _together(dist.all_gather, lengths, length)
        longest = max(int(each) for each in lengths)
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(mine)] = mine
        texts = [torch.zeros_like(padded) for _ in range(self.count)]
        _together(dist.all_gather, texts, padded)
        return [
            json.loads(bytes(text[: int(size)].tolist()))
            for text, size in zip(texts, lengths, strict=True)
        ]

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all workers."""
        if self.alone:
            return
        large = [t for t in tensors if t.numel() >= _LARGE and t.is_contiguous()]
        small = [t for t in tensors if not (t.numel() >= _LARGE and t.is_contiguous())]
        flat = torch.cat([tensor.reshape(-1) for tensor in small]) if small else None
        # All sums are under way at once; large tensors are summed where they are.
        waiting = [
            _together(dist.all_reduce, tensor, async_op=True)
            for tensor in (large if flat is None else [*large, flat])
        ]
        for work in waiting:
            _together(work.wait)
        start = 0
        for tensor in small:
            assert flat is not None
            tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()

    def same_start(self, tensors: Sequence[Tensor]) -> None:
        """Give every worker the weights of rank 0."""
        if not self.alone:
            for tensor in tensors:
                _together(dist.broadcast, tensor, src=0)


def join_workers(backend: str | None = None) -> Worker:
    """Join the workers that torchrun started; alone if it did not."""
    if "RANK" in os.environ and not dist.is_initialized():
        dist.init_process_group(backend or ("nccl" if torch.cuda.is_available() else "gloo"))
    return Worker.this()


def _together(operation: Any, *arguments: Any, **options: Any) -> Any:
    try:
        return operation(*arguments, **options)
    except RuntimeError as problem:
        raise WorkerLost(
            "Expected all workers to take part in this step, but one is gone; nothing of the step "
            "was released. Start again from the last checkpoint: what was spent stays counted."
        ) from problem
