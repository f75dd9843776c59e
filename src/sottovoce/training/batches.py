"""The examples of each step, and the pieces in which they go through the model.

Units (examples, or users with all their examples) are sampled, assigned to workers or
micro-batches, and packed into pieces that fit into memory. What is clipped together stays in one
piece: a user or a micro-batch. Only the mean of a worker may be accumulated over several pieces.

The units of a Poisson sample are assigned independently, so adding one moves no other. A shuffled
batch has a fixed size and is split evenly by position, so replacing a unit moves no other either.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import Assignment, Contribution, Sampling
from sottovoce.privacy.guarantee import Unit
from sottovoce.privacy.sampling import (
    Indices,
    Membership,
    SamplingKey,
    group_by,
    shuffled_batches,
)
from sottovoce.training.plan import Method, Plan

MIXED = Contribution.MIXED


@dataclass(frozen=True)
class Piece:
    """Examples that go through the model together.

    `groups[i]` is the group of example i among the `count` groups of this piece, and `sizes[g]` how
    many units group g averages over. `closes` is False if the group continues in the next piece.
    """

    examples: Tensor
    groups: Tensor
    sizes: Tensor
    closes: bool = True

    @property
    def count(self) -> int:
        return len(self.sizes)

    def only(self, groups: Sequence[int]) -> "Piece":
        """The examples of these groups (ascending), renumbered from 0."""
        wanted = torch.tensor(groups, dtype=torch.int64)
        inside = torch.isin(self.groups, wanted)
        numbers = torch.searchsorted(wanted, self.groups[inside])
        return Piece(self.examples[inside], numbers, self.sizes[wanted], self.closes)

    def last(self, group: int) -> tuple["Piece", int]:
        """The same piece with the examples of this group at the end, and its new number."""
        numbers = torch.where(self.groups > group, self.groups - 1, self.groups)
        numbers[self.groups == group] = self.count - 1
        order = numbers.argsort(stable=True)
        places = [*(other for other in range(self.count) if other != group), group]
        piece = Piece(self.examples[order], numbers[order], self.sizes[places], self.closes)
        return piece, self.count - 1

    def without(self, group: int) -> "Piece":
        return self.only([other for other in range(self.count) if other != group])


class Batches:
    """The pieces of every step for one worker, or for all of them in one process."""

    def __init__(
        self, plan: Plan, owners: Sequence[str], key: SamplingKey, *, rank: int | None = None
    ) -> None:
        """`owners[i]` is the unit of example i: a unique id, or its user."""
        self._plan = plan
        self._key = key
        self._rank = rank
        units, places = group_by(owners) if plan.unit is Unit.USER else (list(owners), None)
        self._places: list[Indices] | None = places
        self._members = Membership(units, key)
        if len(units) > 2 * plan.population:
            raise InvalidInput(
                f"Expected a population near the number of {plan.unit}s, got {plan.population} for "
                "more than twice as many: delta is checked against the population."
            )
        if plan.sampling is Sampling.SHUFFLE and len(units) != plan.population:
            raise InvalidInput(
                f"Expected {plan.population} {plan.unit}s, the planned population, for shuffled "
                f"batches, got {len(units)}: replace-one needs the exact number."
            )

    def pieces(self, step: int) -> list[Piece]:
        plan = self._plan
        units = self._sampled(step)
        # Assign groups before selecting those of this rank, so that positions agree on all ranks.
        group = self._assigned(units, plan.divisor, step) if plan.contribution is MIXED else units
        if self._rank is not None:
            mine = self._assigned(units, plan.workers, step) == self._rank
            units, group = units[mine], group[mine]
        if plan.contribution is MIXED:
            groups = [units[group == number] for number in np.unique(group)]
            means = plan.method is Method.EDP_SGD
            return self._means(groups, step) if means else self._packed(groups, step)
        if self._places is not None or plan.method is Method.TEXTBOOK:
            return self._packed(list(units.reshape(-1, 1)), step)
        # Of nearly equal size: a small remainder costs a whole pass too.
        pieces = -(-len(units) // plan.virtual_batch)
        return [_singletons(part) for part in np.array_split(units, pieces)] if pieces else []

    def _sampled(self, step: int) -> Indices:
        if self._plan.sampling is Sampling.POISSON:
            return self._members.poisson(step, self._plan.sampling_rate)
        epoch, number = divmod(step, self._plan.steps_per_epoch)
        batches = shuffled_batches(len(self._members), self._plan.batch_size, epoch, self._key)
        return next(batch for place, batch in enumerate(batches) if place == number)

    def _assigned(self, units: Indices, count: int, step: int) -> Indices:
        """The worker or micro-batch, out of `count`, of each of these units."""
        if self._plan.assignment is Assignment.POSITIONAL:
            return np.arange(len(units)) * count // len(units)
        return self._members.workers(count, step)[units]

    def _examples(self, units: Indices, step: int) -> list[Indices]:
        if self._places is None:
            return list(units.reshape(-1, 1))
        return [self._capped(self._places[unit], unit, step) for unit in units]

    def _capped(self, places: Indices, unit: int, step: int) -> Indices:
        """At most `examples_per_user` of a user's examples, drawn without looking at them."""
        most = self._plan.examples_per_user
        if most is None or len(places) <= most:
            return places
        key = hashlib.blake2b(f"{step} {unit}".encode(), key=self._key.secret, digest_size=16)
        draw = np.random.default_rng(int.from_bytes(key.digest(), "little"))
        return np.sort(draw.choice(places, most, replace=False))

    def _packed(self, groups: Sequence[Indices], step: int) -> list[Piece]:
        """Pack groups into pieces of at most `virtual_batch` examples, without splitting any."""
        limit = 1 if self._plan.method is Method.TEXTBOOK else self._plan.virtual_batch
        pieces: list[Piece] = []
        waiting: list[tuple[Indices, int]] = []
        size = 0
        for group in groups:
            examples = np.concatenate(self._examples(group, step))
            if waiting and size + len(examples) > limit:
                pieces.append(_piece(waiting))
                waiting, size = [], 0
            waiting.append((examples, len(group)))
            size += len(examples)
        return [*pieces, _piece(waiting)] if waiting else pieces

    def _means(self, groups: Sequence[Indices], step: int) -> list[Piece]:
        """One group per worker; the mean of a large group is accumulated over several pieces."""
        pieces = []
        for own in groups:
            examples = np.concatenate(self._examples(own, step))
            limit = self._plan.virtual_batch
            for start in range(0, len(examples), limit):
                part = examples[start : start + limit]
                last = start + limit >= len(examples)
                pieces.append(_piece([(part, len(examples))], closes=last))
        return pieces


def _singletons(examples: Indices) -> Piece:
    """Every example in its own group: the common case, without a loop."""
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
    """Ids for examples without ids: their positions."""
    return (str(place) for place in range(size))
