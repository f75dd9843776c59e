"""How far one unit moves the clipped sum, measured in passes that are never released.

A piece goes through the model, then the same without one unit, at the same weights and with the
same random numbers. The two sums must differ by exactly the clipped gradient of the unit left out,
computed by a plain backward pass of that unit alone. With a few units, what one of them adds to the
sum is compared with that gradient directly, which takes one pass less.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from sottovoce.training.batches import Piece
from sottovoce.training.checks.ownership import foreign_leaf, refuse_hidden_graph
from sottovoce.training.checks.randomness import Draws, OtherGenerators, frozen
from sottovoce.training.clipping.gradients import ClippedGradient, check_losses, rows_or_all
from sottovoce.training.clipping.totals import LARGE, Tables, sum_dtype

# Units in a check that is not of a whole piece.
FEW = 3
# How often a loop has to do the same before it is believed to do the same always.
TIMES = 8
# Rounding may move each contribution by so much; the errors of many add up like independent ones.
# Half precision rounds the forward pass of another batch size differently.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.bfloat16: 0.05}
# Where all contributions are tiny, rounding is relative to the clip norm.
FLOOR = 1e-5


@dataclass
class Trial:
    """A pass over some units that is measured and not released."""

    piece: Piece
    context: AbstractContextManager[None]
    backward: Callable[[Tensor], None]
    result: "Result" = field(default_factory=lambda: Result([]))


@dataclass
class Result:
    """What came out of a pass."""

    sums: list[Tensor]
    """One tensor a parameter."""
    norms: Tensor = field(default_factory=lambda: torch.zeros(0))
    """[groups] the norms on record."""
    clipped: float = 0.0
    """The norms of all contributions: the root of the sum of their squares."""
    divisor: int = 1
    """What the sums were divided by."""


Measuring = Generator[Trial, None, "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """What one unit did to the sum, in units of the stated sensitivity."""

    moved: float
    """How far it moved the sum."""
    unexplained: float
    """How much of that is not the unit's own clipped gradient."""
    allowed: float
    """How much rounding may do."""
    layer: str
    """The parameter whose sum moved most."""
    norms: tuple[float, float] | None = None
    """The norm of the unit's gradient on record, and by a plain backward pass."""

    @property
    def holds(self) -> bool:
        # Written so that a NaN does not pass.
        within = self.unexplained <= self.allowed and self.moved <= 1 + self.allowed
        return within and not self.norm_too_small

    @property
    def norm_too_small(self) -> bool:
        if self.norms is None:
            return False
        on_record, alone = self.norms
        return not on_record >= alone * (1 - max(1e-3, self.allowed)) - FLOOR


class Sensitivity:
    """Measures what one unit does to the sum of a gradient."""

    def __init__(self, model: nn.Module, gradient: ClippedGradient) -> None:
        self._gradient = gradient
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self._names = [name for name, _ in named]
        self._parameters = [p for _, p in named]
        self._tables = Tables(model)

    def leave_out(
        self,
        part: Piece,
        removed: int,
        draws: Draws | None,
        others: OtherGenerators,
        full: Result | None = None,
    ) -> Measuring:
        """Passes over `part` with one group and without it: does the sum move by what it adds?

        `full` is the result of the first of them, if it was made already. Without `draws`, random
        numbers are held still.
        """
        if not self._gradient.by_group:
            return (yield from self._leave_out_example(part, draws, others))
        mine = part.groups == removed
        if full is None:
            together = self._pass(part, frozen() if draws is None else draws.record(), others)
            yield together
            full = together.result
        moved: list[Tensor] = []
        if not bool(mine.all()):
            smaller = self._pass(part.without(removed), _again(draws, ~mine), others)
            yield smaller
            moved, smaller.result.sums = smaller.result.sums, []
        # In the memory of the smaller one: each of these is as large as the model.
        moved = [
            _moved(total, full.divisor, moved[at] if moved else None)
            for at, total in enumerate(full.sums)
        ]
        full.sums = []
        if draws is None:
            # By itself it would draw the numbers of another place: its own loss among the others.
            alone = self._plain_pass(part, frozen(), others, mine)
        else:
            alone = self._plain_pass(part.only([removed]), _again(draws, mine), others)
        yield alone
        return self._compare(moved, alone.result, full.clipped, float(full.norms[removed]))

    def share(self, part: Piece, chosen: int, draws: Draws, others: OtherGenerators) -> Measuring:
        """What one group adds to the sum among others, and alone: half the price of `leave_out`.

        There the group influences the others, here they influence it.
        """
        if not self._gradient.by_group:
            return (yield from self._leave_out_example(part, draws, others))
        together = self._pass(part, draws.record(), others, only=chosen)
        yield together
        again = _again(draws, part.groups == chosen)
        alone = self._plain_pass(part.only([chosen]), again, others)
        yield alone
        found = together.result
        return self._compare(found.sums, alone.result, found.clipped, float(found.norms[chosen]))

    def _leave_out_example(
        self, part: Piece, draws: Draws | None, others: OtherGenerators
    ) -> Measuring:
        """One group at a time, clipped as a whole: leaving out an example turns it around at most.

        So the sums are within twice the clip norm of each other, and each within it.
        """
        few = min(FEW, len(part.examples))
        part = self._one_group(part.examples[:few])
        full = self._pass(part, frozen() if draws is None else draws.record(), others)
        yield full
        limit = self._gradient.sensitivity
        sums = full.result.sums
        size = moved = self._gradient.measure(_values(sums)) / limit
        if few > 1:
            kept = torch.arange(few) < few - 1
            smaller = self._pass(self._one_group(part.examples[:-1]), _again(draws, kept), others)
            yield smaller
            apart = [_moved(a, 1, b) for a, b in zip(sums, smaller.result.sums, strict=True)]
            moved = self._gradient.measure(_values(apart)) / limit
        # Clipped as a whole, it cannot be further. What may differ is what was clipped: the group
        # once more, after another, by a plain pass. A loop that remembers the other one shows.
        alone = self._plain_pass(part, _again(draws, torch.ones(few, dtype=torch.bool)), others)
        yield alone
        return replace(self._compare(sums, alone.result, limit), moved=max(size, moved / 2))

    def _one_group(self, examples: Tensor) -> Piece:
        units = len(examples) if self._gradient.averages else 1
        nobody = torch.zeros(len(examples), dtype=torch.int64)
        return Piece(examples, nobody, torch.tensor([units]))

    def repeats(self, part: Piece, others: OtherGenerators) -> Generator[Trial, None, bool]:
        """Whether the same examples give the same sum every time."""
        draws = Draws(len(part.examples))
        everybody = list(range(len(part.examples)))
        if not self._gradient.by_group:
            part = self._one_group(part.examples)
        first = self._pass(part, draws.record(), others)
        yield first
        for _ in range(TIMES):
            again = self._pass(part, draws.replay(everybody), others)
            yield again
            if not draws.aligned:
                return False
            pairs = zip(first.result.sums, again.result.sums, strict=True)
            apart = self._gradient.measure(_values(_moved(a, 1, b) for a, b in pairs))
            if not apart / self._gradient.sensitivity <= self._allowed(first.result.clipped):
                return False
        return True

    def _compare(
        self, moved: list[Tensor], alone: Result, clipped: float, on_record: float | None = None
    ) -> Outcome:
        """How far the sums moved, and how far beyond what one group gives alone.

        `moved` is used up.
        """
        limit = self._gradient.sensitivity
        distance = self._gradient.measure(_values(moved))
        own = alone.sums
        factors = self._gradient.factors(_values(own))
        rest = [
            # A gradient that is not finite is left out, and NaN times zero is NaN.
            _less(total, gradient, factor) if factor else total
            for total, gradient, factor in zip(moved, own, factors, strict=True)
        ]
        left = self._gradient.measure(_values(rest))
        furthest = torch.stack(torch._foreach_norm(_values(rest if left else own))).argmax()
        norms = None
        if on_record is not None and bool(alone.norms.isfinite()):
            norms = (on_record / limit, float(alone.norms) / limit)
        return Outcome(
            moved=distance / limit,
            unexplained=left / limit,
            allowed=self._allowed(clipped),
            layer=self._names[int(furthest)],
            norms=norms,
        )

    def _allowed(self, clipped: float) -> float:
        tolerance = max(TOLERANCE.get(p.dtype, 0.05) for p in self._parameters)
        return tolerance * clipped / self._gradient.sensitivity + FLOOR

    def watched(self) -> Result:
        """What came out of a pass of the training itself, the first of a step."""
        gradient = self._gradient
        return Result(gradient.finish(), gradient.norms, gradient.clipped, gradient.divisor)

    @staticmethod
    def keep(result: Result) -> None:
        """Before others are added to the same sums."""
        result.sums = [_rows(total) if _large(total) else total.clone() for total in result.sums]

    def _pass(
        self,
        part: Piece,
        randomness: AbstractContextManager[None],
        others: OtherGenerators,
        only: int | None = None,
    ) -> Trial:
        """A pass as training makes it, into sums of its own, or into those of one group only."""
        gradient = self._gradient

        def backward(losses: Tensor) -> None:
            refuse_hidden_graph(losses)
            foreign_leaf(losses, self._parameters)
            gradient.backward(losses, part)

        @contextmanager
        def run() -> Iterator[None]:
            others.rewind()
            with gradient.apart(only) as sums:
                with randomness, gradient.piece(part):
                    yield
                others.look()
                found = sums.tensors(self._parameters)
                trial.result = Result(found, gradient.norms, gradient.clipped)

        trial = Trial(part, run(), backward)
        return trial

    def _plain_pass(
        self,
        part: Piece,
        randomness: AbstractContextManager[None],
        others: OtherGenerators,
        mine: Tensor | None = None,
    ) -> Trial:
        """The gradient of one group, as torch computes it without any of our rules.

        The group is all of the part, or where it is `mine`.
        """

        def backward(losses: Tensor) -> None:
            check_losses(losses, part)
            if mine is not None:
                losses = losses[mine.to(losses.device)]
            group = 0 if mine is None else int(part.groups[mine][0])
            total = losses.sum() / float(part.sizes[group])
            found: Sequence[Tensor | None] = [None] * len(self._parameters)
            if total.requires_grad:
                found = torch.autograd.grad(total, self._parameters, allow_unused=True)
            sums = [
                rows_or_all(p, g).to(sum_dtype(p))
                for p, g in zip(self._parameters, found, strict=True)
            ]
            norms = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(_values(sums))))
            trial.result = Result(sums, norms)

        @contextmanager
        def run() -> Iterator[None]:
            others.rewind()
            with _without_onednn(), self._tables.by_rows(), randomness:
                yield
            others.look()

        trial = Trial(part, run(), backward)
        return trial


@contextmanager
def _without_onednn() -> Iterator[None]:
    """oneDNN prepares itself for every new shape, which takes longer than a pass over one unit."""
    flags: Any = torch.backends.mkldnn
    before, flags.enabled = flags.enabled, False
    try:
        yield
    finally:
        flags.enabled = before


def _values(tensors: Iterable[Tensor]) -> list[Tensor]:
    """The numbers of dense tensors, and of sparse ones that have every row once."""
    return [each.values() if each.is_sparse else each for each in tensors]


def _large(total: Tensor) -> bool:
    return total.dim() == 2 and total.numel() >= LARGE


def _rows(table: Tensor) -> Tensor:
    """A table as a sparse one: few rows of it were looked up."""
    if table.is_sparse:
        return table
    places = torch.linalg.vector_norm(table, dim=1).nonzero().flatten()
    return torch.sparse_coo_tensor(
        places.unsqueeze(0), table[places], table.shape, check_invariants=False
    ).coalesce()


def _moved(total: Tensor, divisor: int, smaller: Tensor | None) -> Tensor:
    """divisor * total - smaller, in the memory of the smaller one where that is dense."""
    if smaller is None:
        return total * divisor
    if smaller.is_sparse:
        return (_rows(total) * divisor - smaller).coalesce()
    return smaller.neg_().add_(total, alpha=divisor)


def _less(total: Tensor, gradient: Tensor, factor: float) -> Tensor:
    """total - factor * gradient, in place where it is dense."""
    if not total.is_sparse:
        return total.add_(gradient, alpha=-factor)
    if gradient.is_sparse:
        return (total - gradient * factor).coalesce()
    return (gradient * -factor).add_(total)


def _again(draws: Draws | None, kept: Tensor) -> AbstractContextManager[None]:
    return frozen() if draws is None else draws.replay(kept.nonzero().flatten().tolist())


def sentence(outcome: Outcome) -> str:
    if outcome.norm_too_small and outcome.norms is not None:
        on_record, alone = outcome.norms
        what = (
            f"an example whose gradient has {alone:.3g} times the clip norm was clipped as if it "
            f"had {on_record:.3g}"
        )
    elif outcome.moved > 1 + outcome.allowed:
        what = f"leaving out one example moved the clipped sum by {outcome.moved:.3g} times that"
    else:
        what = (
            "what examples contribute depends on who else is in the batch, by "
            f"{outcome.unexplained:.2g} times that"
        )
    return (
        f"Expected one example to move the clipped sum by at most the clip norm, and nothing else, "
        f"but {what}, most in {outcome.layer}. The model or the loss mixes examples (statistics of "
        "the batch, a loss divided by the batch's number of words, rows in another order), or a "
        "layer computes something that its rule does not record. Training has stopped; nothing of "
        "this step was released, and what was released before has no guarantee."
    )
