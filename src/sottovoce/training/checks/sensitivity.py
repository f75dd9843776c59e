"""How far one unit moves the clipped sum, measured in passes that are never released.

Some units of a piece go through the model, then the same without one of them, at the same weights
and with the same random numbers. The two sums must differ by exactly the clipped gradient of the
unit left out, computed by a plain backward pass of that unit alone.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from sottovoce.training.batches import Piece
from sottovoce.training.checks.ownership import foreign_leaf, refuse_hidden_graph
from sottovoce.training.checks.randomness import Draws, OtherGenerators, frozen
from sottovoce.training.clipping.gradients import ClippedGradient, check_losses, dense
from sottovoce.training.clipping.totals import sum_dtype

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
    sums: list[Tensor] = field(default_factory=list)
    """What came out, one tensor a parameter."""
    norms: Tensor = field(default_factory=lambda: torch.zeros(0))
    """[groups] the norms on record."""
    clipped: float = 0.0
    """The norms of all contributions: the root of the sum of their squares."""


Measuring = Generator[Trial, None, "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """What leaving out one unit did, in units of the stated sensitivity."""

    moved: float
    """How far the sum moved."""
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
    """Measures how far leaving out one unit moves the sum of a gradient."""

    def __init__(self, model: nn.Module, gradient: ClippedGradient) -> None:
        self._gradient = gradient
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self._names = [name for name, _ in named]
        self._parameters = [p for _, p in named]

    def measure(
        self, part: Piece, removed: int, draws: Draws | None, others: OtherGenerators
    ) -> Measuring:
        """The passes over `part` with and without one group; without `draws`, draws are held."""
        if self._gradient.by_group:
            return self._leave_out_group(part, removed, draws, others)
        return self._leave_out_example(part, draws, others)

    def _leave_out_group(
        self, part: Piece, removed: int, draws: Draws | None, others: OtherGenerators
    ) -> Measuring:
        """Groups that go through the model together: the sums differ by what one group gives."""
        mine = part.groups == removed
        full = self._pass(part, frozen() if draws is None else draws.record(), others)
        yield full
        on_record, clipped = float(full.norms[removed]), full.clipped
        moved, full.sums = full.sums, []
        if not bool(mine.all()):
            smaller = self._pass(part.without(removed), _again(draws, ~mine), others)
            yield smaller
            # In place, and let go at once: each of these is as large as the model.
            torch._foreach_sub_(moved, smaller.sums)
            smaller.sums = []
        if draws is None:
            # By itself it would draw the numbers of another place: its own loss among the others.
            alone = self._plain_pass(part, frozen(), others, mine)
        else:
            alone = self._plain_pass(part.only([removed]), _again(draws, mine), others)
        yield alone
        own, alone.sums = self._gradient.clip(alone.sums), []
        norms = (on_record, float(alone.norms)) if alone.norms.isfinite() else None
        return self._outcome(moved, own, clipped, norms)

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
        size = self._gradient.measure(full.sums) / limit
        rest = [torch.zeros_like(total) for total in full.sums]
        if few > 1:
            kept = torch.arange(few) < few - 1
            smaller = self._pass(self._one_group(part.examples[:-1]), _again(draws, kept), others)
            yield smaller
            rest = smaller.sums
        moved = self._gradient.measure(torch._foreach_sub(full.sums, rest)) / limit
        # Clipped as a whole, it cannot be further. What may differ is what was clipped: the group
        # once more, after another, by a plain pass. A loop that remembers the other one shows.
        alone = self._plain_pass(part, _again(draws, torch.ones(few, dtype=torch.bool)), others)
        yield alone
        apart = self._outcome(full.sums, self._gradient.clip(alone.sums), limit, None)
        furthest = max(size, moved / 2)
        return Outcome(furthest, apart.unexplained, apart.allowed, apart.layer)

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
            outcome = self._outcome(again.sums, first.sums, first.clipped, None)
            if not outcome.unexplained <= outcome.allowed:
                return False
        return True

    def _outcome(
        self,
        moved: list[Tensor],
        own: list[Tensor],
        clipped: float,
        norms: tuple[float, float] | None,
    ) -> Outcome:
        """How far the sums moved, and how far beyond `own`; what is left stays in `moved`."""
        limit = self._gradient.sensitivity
        by_parameter, distance = (
            torch.stack(torch._foreach_norm(moved)),
            self._gradient.measure(moved),
        )
        torch._foreach_sub_(moved, own)
        left = torch.stack(torch._foreach_norm(moved))
        furthest = int((left if bool(left.any()) else by_parameter).argmax())
        tolerance = max(TOLERANCE.get(p.dtype, 0.05) for p in self._parameters)
        return Outcome(
            moved=distance / limit,
            unexplained=self._gradient.measure(moved) / limit,
            allowed=tolerance * clipped / limit + FLOOR,
            layer=self._names[furthest],
            norms=norms and (norms[0] / limit, norms[1] / limit),
        )

    def _pass(
        self, part: Piece, randomness: AbstractContextManager[None], others: OtherGenerators
    ) -> Trial:
        """A pass as training makes it, into sums of its own."""
        gradient = self._gradient

        def backward(losses: Tensor) -> None:
            refuse_hidden_graph(losses)
            foreign_leaf(losses, self._parameters)
            gradient.backward(losses, part)

        @contextmanager
        def run() -> Iterator[None]:
            others.rewind()
            with gradient.apart() as sums:
                with randomness, gradient.piece(part):
                    yield
                others.look()
                trial.norms, trial.clipped = gradient.norms, gradient.clipped
                trial.sums = sums.tensors(self._parameters)
                torch._foreach_mul_(trial.sums, float(gradient.divisor))

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
            trial.sums = [
                torch.zeros_like(p, dtype=sum_dtype(p)) if g is None else dense(g).to(sum_dtype(p))
                for p, g in zip(self._parameters, found, strict=True)
            ]
            trial.norms = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(trial.sums)))

        @contextmanager
        def run() -> Iterator[None]:
            others.rewind()
            with randomness:
                yield
            others.look()

        trial = Trial(part, run(), backward)
        return trial


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
            "leaving out one example changed what the others contribute, by "
            f"{outcome.unexplained:.2g} times that"
        )
    return (
        f"Expected one example to move the clipped sum by at most the clip norm, and nothing else, "
        f"but {what}, most in {outcome.layer}. The model or the loss mixes examples (statistics of "
        "the batch, a loss divided by the batch's number of words, rows in another order), or a "
        "layer computes something that its rule does not record. Training has stopped; nothing of "
        "this step was released, and what was released before has no guarantee."
    )
