"""Which examples a step is made of, and in which pieces they go through the model.

Units (examples, or users with all their examples) are sampled, dealt to workers or micro-batches,
and packed into pieces that fit into memory. What is clipped together is never split: a user, a
micro-batch and a worker's batch each end up in one piece, except that a worker's mean may be added
up over several.

A Poisson sample is dealt unit by unit, each independently of the others: whoever is added moves
nobody else. A shuffled batch has a fixed size and is dealt evenly, by places: whoever is replaced
leaves a place to another, and nobody else moves either.
"""

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
    many units are mixed in group g. `closes` is False while a group goes on in the next piece.
    """

    examples: Tensor
    groups: Tensor
    sizes: Tensor
    closes: bool = True

    @property
    def count(self) -> int:
        return len(self.sizes)

    def only(self, groups: Sequence[int]) -> "Piece":
        """The examples of these groups, which are numbered anew in this order (ascending)."""
        wanted = torch.tensor(groups, dtype=torch.int64)
        inside = torch.isin(self.groups, wanted)
        numbers = torch.searchsorted(wanted, self.groups[inside])
        return Piece(self.examples[inside], numbers, self.sizes[wanted], self.closes)

    def last(self, group: int) -> tuple["Piece", int]:
        """The same with the examples of this group at the end, and its number now."""
        numbers = torch.where(self.groups > group, self.groups - 1, self.groups)
        numbers[self.groups == group] = self.count - 1
        order = numbers.argsort(stable=True)
        places = [*(other for other in range(self.count) if other != group), group]
        piece = Piece(self.examples[order], numbers[order], self.sizes[places], self.closes)
        return piece, self.count - 1

    def without(self, group: int) -> "Piece":
        return self.only([other for other in range(self.count) if other != group])


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
        if len(units) > 2 * plan.population:
            raise InvalidInput(
                f"Expected a population near the number of {plan.unit}s, got {plan.population} for "
                "more than twice as many: the guarantee's delta is judged against it."
            )
        if plan.sampling is Sampling.SHUFFLE and len(units) != plan.population:
            raise InvalidInput(
                f"Expected a population of {plan.population} {plan.unit}s for shuffled batches, as "
                f"planned, got {len(units)}: replace-one needs the exact number."
            )

    def pieces(self, step: int) -> list[Piece]:
        plan = self._plan
        units = self._sampled(step)
        # Groups are dealt before a rank takes its share, so that places mean the same to all ranks.
        group = self._dealt(units, plan.divisor, step) if plan.contribution is MIXED else units
        if self._rank is not None:
            mine = self._dealt(units, plan.workers, step) == self._rank
            units, group = units[mine], group[mine]
        if plan.contribution is MIXED:
            groups = [units[group == number] for number in np.unique(group)]
            return self._means(groups) if plan.method is Method.EDP_SGD else self._packed(groups)
        if self._places is not None or plan.method is Method.TEXTBOOK:
            return self._packed(list(units.reshape(-1, 1)))
        limit = plan.virtual_batch
        return [_singletons(units[at : at + limit]) for at in range(0, len(units), limit)]

    def _sampled(self, step: int) -> Indices:
        if self._plan.sampling is Sampling.POISSON:
            return self._members.poisson(step, self._plan.sampling_rate)
        epoch, number = divmod(step, self._plan.steps_per_epoch)
        batches = shuffled_batches(len(self._members), self._plan.batch_size, epoch, self._key)
        return next(batch for place, batch in enumerate(batches) if place == number)

    def _dealt(self, units: Indices, count: int, step: int) -> Indices:
        """Which of `count` workers or micro-batches takes each of these units."""
        if self._plan.assignment is Assignment.POSITIONAL:
            return np.arange(len(units)) * count // len(units)
        return self._members.workers(count, step)[units]

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

    def _means(self, groups: Sequence[Indices]) -> list[Piece]:
        """One group a worker, its mean added up over pieces where it is too large for one."""
        pieces = []
        for own in groups:
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
