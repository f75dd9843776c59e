"""Which examples a step is made of, and in which pieces they go through the model.

Units (examples, or users with all their examples) are sampled, dealt to workers or micro-batches
one by one, and packed into pieces that fit into memory. What is clipped together is never split:
a user, a micro-batch and a worker's batch each end up in one piece, except that a worker's mean may
be added up over several.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import Sampling
from sottovoce.privacy.guarantee import Unit
from sottovoce.privacy.sampling import (
    Indices,
    Membership,
    SamplingKey,
    group_by,
    shuffled_batches,
)
from sottovoce.training.plan import Method, Plan


@dataclass(frozen=True)
class Piece:
    """Examples that go through the model together.

    `groups[i]` is the group of example i among the `count` groups of this piece, and `sizes[g]` how
    many units are mixed in group g. `closes` is False while a group goes on in the next piece.
    """

    examples: Tensor
    groups: Tensor
    sizes: Tensor
    closes: bool = True

    @property
    def count(self) -> int:
        return len(self.sizes)


class Batches:
    """The pieces of every step, as seen from one worker (or from all of them in one process)."""

    def __init__(
        self, plan: Plan, owners: Sequence[str], key: SamplingKey, *, rank: int | None = None
    ) -> None:
        """`owners[i]` is the unit of example i: a unique id, or the user who said it."""
        self._plan = plan
        self._key = key
        self._rank = rank
        units, places = group_by(owners) if plan.unit is Unit.USER else (list(owners), None)
        self._places: list[Indices] | None = places
        self._members = Membership(units, key)
        if plan.sampling is Sampling.SHUFFLE and len(units) != plan.population:
            raise InvalidInput(
                f"Expected a population of {plan.population} {plan.unit}s for shuffled batches, as "
                f"planned, got {len(units)}: replace-one needs the exact number."
            )

    def pieces(self, step: int) -> list[Piece]:
        units = self._sampled(step)
        workers = self._plan.workers
        if self._rank is not None:
            units = units[self._members.workers(workers, step)[units] == self._rank]
        if self._plan.method is Method.EDP_SGD:
            return self._workers_pieces(units, step)
        if self._plan.micro_batch > 1:
            dealt = self._members.workers(self._plan.divisor, step)[units]
            return self._packed([units[dealt == number] for number in np.unique(dealt)])
        if self._places is not None or self._plan.method is Method.TEXTBOOK:
            return self._packed(list(units.reshape(-1, 1)))
        limit = self._plan.virtual_batch
        return [_singletons(units[at : at + limit]) for at in range(0, len(units), limit)]

    def _sampled(self, step: int) -> Indices:
        if self._plan.sampling is Sampling.POISSON:
            return self._members.poisson(step, self._plan.sampling_rate)
        epoch, number = divmod(step, self._plan.steps_per_epoch)
        batches = shuffled_batches(len(self._members), self._plan.batch_size, epoch, self._key)
        return next(batch for place, batch in enumerate(batches) if place == number)

    def _examples(self, units: Indices) -> list[Indices]:
        if self._places is None:
            return list(units.reshape(-1, 1))
        return [self._places[unit] for unit in units]

    def _packed(self, groups: Sequence[Indices]) -> list[Piece]:
        """Groups of units in pieces of at most `virtual_batch` examples, none of them split."""
        limit = 1 if self._plan.method is Method.TEXTBOOK else self._plan.virtual_batch
        pieces: list[Piece] = []
        waiting: list[tuple[Indices, int]] = []
        size = 0
        for group in groups:
            examples = np.concatenate(self._examples(group))
            if waiting and size + len(examples) > limit:
                pieces.append(_piece(waiting))
                waiting, size = [], 0
            waiting.append((examples, len(group)))
            size += len(examples)
        return [*pieces, _piece(waiting)] if waiting else pieces

    def _workers_pieces(self, units: Indices, step: int) -> list[Piece]:
        """One group a worker, its mean added up over pieces where it is too large for one."""
        dealt = self._members.workers(self._plan.workers, step)[units]
        pieces = []
        for worker in np.unique(dealt):
            own = units[dealt == worker]
            examples = np.concatenate(self._examples(own))
            limit = self._plan.virtual_batch
            for start in range(0, len(examples), limit):
                part = examples[start : start + limit]
                last = start + limit >= len(examples)
                pieces.append(_piece([(part, len(examples))], closes=last))
        return pieces


def _singletons(examples: Indices) -> Piece:
    """Every example its own group: the common case, without a loop over them."""
    count = len(examples)
    return Piece(torch.from_numpy(examples), torch.arange(count), torch.ones(count))


def _piece(groups: Sequence[tuple[Indices, int]], *, closes: bool = True) -> Piece:
    labels = [np.full(len(examples), number) for number, (examples, _) in enumerate(groups)]
    return Piece(
        examples=torch.from_numpy(np.concatenate([examples for examples, _ in groups])),
        groups=torch.from_numpy(np.concatenate(labels)),
        sizes=torch.tensor([size for _, size in groups]),
        closes=closes,
    )


def numbered(size: int) -> Iterator[str]:
    """Ids for examples that have none: their places."""
    return (str(place) for place in range(size))
