"""The neighbour check: measure, while training, the sensitivity that the ledger states.

The ledger says that one unit moves the clipped sum by at most C. Rules, norms and the independence
of examples are reasons to believe it; this tests it. Some units of a piece go through the model,
then the same without one of them, at the same weights and with the same dropout, and the sums are
compared: they must differ by exactly the clipped gradient of the unit left out, computed by a plain
backward pass of that unit alone. Whatever breaks the claim (a layer recorded wrongly, a model that
mixes examples, a loss divided by a number of the batch) shows, whatever its cause.

The passes are made by the training loop itself: it is handed the piece again, and nothing of them
is released. They come with the first steps, whenever the loop does something it has not done
before, and at random for ever. Where the check fails, training stops.

It also stops where a loop does not do the same thing twice, because then nothing can be shown: a
memory of earlier examples looks like that. Random numbers are no excuse as long as they come from
the global generators of torch, numpy and Python: those are repeated, or held still. For others,
somebody has to declare `own_randomness`, and the statement says so.
"""

import random
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

import torch
from torch import Tensor, nn

from sottovoce.training.batches import Piece
from sottovoce.training.checks.ownership import foreign_leaf, refuse_hidden_graph
from sottovoce.training.checks.randomness import Draws, OtherGenerators, frozen, undisturbed
from sottovoce.training.clipping.gradients import ClippedGradient, check_losses, dense
from sottovoce.training.clipping.totals import sum_dtype
from sottovoce.training.errors import NeighbourCheckFailed

# The first step and whatever runs other rules than before are checked with the whole piece, at
# once. Inputs of another magnitude are checked with a few units, which costs about a third of a
# piece, as long as there is an allowance: AT_FIRST, and one more every EVERY steps. It is more than
# texts need; where it runs out, a size is checked when it comes again. And one in RARELY steps is
# checked at random, for ever.
RARELY = 256
AT_FIRST, EVERY = 12, 160
# Units in a check that is not of a whole piece; one in WHOLE of the checks at random is of one.
FEW = 3
WHOLE = 32
# How often a loop has to do the same before it is believed to do the same always.
TIMES = 8
# Rounding may move each contribution by so much; the errors of many add up like independent ones.
# Half precision rounds the forward pass of another batch size differently.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.bfloat16: 0.05}
# Where all contributions are tiny, rounding is relative to the clip norm.
FLOOR = 1e-5

UNREPEATABLE = (
    "the model and the loss treat each example by itself; the neighbour check could not repeat the "
    "random numbers that the training loop draws outside of torch, so it could not show this"
)
DROPOUT_OFF = (
    "examples that do not influence each other with dropout switched off do not with it either; "
    "the neighbour check could not repeat the model's random numbers and switched them off"
)
NOT_REPEATABLE = (
    "Expected a training loop that does the same thing again when it is given the same examples, "
    "so that one of them can be left out and the rest compared, got other gradients every time. "
    "Either the model or the loss remembers earlier examples (a memory, a queue, a running mean), "
    "which would carry them into the contributions of others: take that out. Or it draws from a "
    "random generator of its own: call the functions of torch, numpy.random or random, or declare "
    "PrivateTraining(..., own_randomness=True). Training has stopped; nothing of this step was "
    "released, and what was released before has no guarantee."
)
MOVES_WEIGHTS = (
    "Expected weights that nobody but the training moves, but the loop itself wrote to "
    "parameters: leave that out. It had neither clipping nor noise, so there is no guarantee."
)


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


@dataclass(frozen=True)
class _Seen:
    """A piece of this step, with the norms on record."""

    piece: Piece
    norms: Tensor


class NeighbourCheck:
    """Decides when to check, and does it.

    `assume` takes a sentence for the statement where the check could not be made in full, `fail`
    one that says what is wrong.
    """

    def __init__(
        self,
        model: nn.Module,
        gradient: ClippedGradient,
        assume: Callable[[str], None],
        fail: Callable[[str], None],
        *,
        seed: int | None = None,
        own_randomness: bool = False,
    ) -> None:
        self._model = model
        self._gradient = gradient
        self._assume = assume
        self._fail = fail
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self._names = [name for name, _ in named]
        self._parameters = [p for _, p in named]
        self._random = random.SystemRandom() if seed is None else random.Random(seed)
        self._own_randomness = own_randomness
        self._known: set[object] = set()
        self._new: list[_Seen] = []
        self._unfamiliar: list[_Seen] = []
        self._allowance = float(AT_FIRST)
        self._draws_seen = _draws(model)
        self._any: _Seen | None = None
        self._steps = 0
        self._before = torch.zeros(0)
        self._largest = 0
        """The most units that were checked at once."""

    def saw(self, piece: Piece) -> None:
        """A piece of the step went through the model: was anything about it new?"""
        if len(piece.examples) == 0:
            return
        seen = _Seen(piece, torch.nan_to_num(self._gradient.norms, nan=0.0, posinf=0.0))
        structure, sizes = self._signature(piece)
        if structure not in self._known or piece.count > 2 * self._largest:
            self._new.append(seen)
            self._largest = max(self._largest, piece.count)
            self._known |= {structure, *sizes}
        elif not sizes <= self._known and self._allowance >= 1:
            self._allowance -= 1
            self._unfamiliar.append(seen)
            self._known |= sizes
        if self._any is None or self._random.random() < 0.5:
            self._any = seen

    def trials(self) -> Iterator[Trial]:
        """The passes to make before this step is released; none in most steps."""
        number, self._steps = self._steps, self._steps + 1
        new, unfamiliar, some = self._new, self._unfamiliar, self._any
        self._new, self._unfamiliar, self._any = [], [], None
        self._allowance += 1 / EVERY
        by_chance = self._random.random() < 1 / RARELY
        checks = [self._whole(seen) for seen in new]
        checks += [self._few(seen) for seen in unfamiliar]
        if not checks and some is not None and (by_chance or number == 1):
            whole = self._random.random() < 1 / WHOLE
            checks = [self._whole(some) if whole else self._few(some)]
        if not checks:
            return
        known, largest = self._known, self._largest
        self._known, self._largest = set(), 0  # a loop that leaves in the middle has shown nothing
        self._before = self._weights()
        with undisturbed():
            for part, removed in checks:
                yield from self._check(part, removed)
        if self._weights_moved():
            self._stop(MOVES_WEIGHTS)
        self._known, self._largest = known, largest

    def _signature(self, piece: Piece) -> tuple[object, set[object]]:
        structure, sizes = self._gradient.signature()
        modes = tuple((id(module), module.training) for module in self._model.modules())
        dtypes = tuple(p.dtype for p in self._parameters)
        known = (structure, modes, dtypes, piece.count > 1, len(piece.examples) > piece.count)
        return known, set(sizes)

    def _whole(self, seen: _Seen) -> tuple[Piece, int]:
        """All of a piece, without the unit that has the largest norm."""
        return seen.piece, int(seen.norms.argmax()) if len(seen.norms) else 0

    def _few(self, seen: _Seen) -> tuple[Piece, int]:
        """The unit with the largest norm and a few others, without one of them."""
        whole, largest = self._whole(seen)
        others = [group for group in range(whole.count) if group != largest]
        few = max(2, min(FEW, whole.count // 8))
        chosen = sorted([largest, *self._random.sample(others, min(few - 1, len(others)))])
        anyone = self._random.randrange(len(chosen))
        return whole.only(chosen), self._random.choice([chosen.index(largest), anyone])

    def _check(self, part: Piece, removed: int) -> Iterator[Trial]:
        draws, others = Draws(len(part.examples), watch=self._draws_seen), OtherGenerators()
        measure = self._leave_out_group if self._gradient.by_group else self._leave_out_example
        outcome = yield from measure(part, removed, draws, others)
        if draws.surprised:
            self._draws_seen, draws = True, Draws(len(part.examples))
            outcome = yield from measure(part, removed, draws, others)
        if not outcome.holds and (others.moved or not draws.aligned):
            # Where draws are held still, those of the others stay as they were if the one who is
            # left out comes last.
            part, removed = part.last(removed)
            others.moved = False
            with others.still():
                outcome = yield from measure(part, removed, None, others)
                if outcome.holds:
                    self._assume(DROPOUT_OFF)
        if outcome.holds:
            return
        # Before the model is blamed: does the loop do the same thing twice?
        repeats = not others.moved and (yield from self._repeats(part, others))
        if repeats:
            self._stop(_sentence(outcome))
        if not self._own_randomness:
            self._stop(NOT_REPEATABLE)
        self._assume(UNREPEATABLE)

    def _stop(self, sentence: str) -> NoReturn:
        sentence = MOVES_WEIGHTS if self._weights_moved() else sentence
        self._fail(sentence)
        raise NeighbourCheckFailed(sentence)

    def _weights_moved(self) -> bool:
        return not torch.equal(self._before, self._weights())

    def _weights(self) -> Tensor:
        return torch.stack([p.detach().float().sum() for p in self._parameters]).nan_to_num()

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
        self, part: Piece, removed: int, draws: Draws | None, others: OtherGenerators
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

    def _repeats(self, part: Piece, others: OtherGenerators) -> Generator[Trial, None, bool]:
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


def _draws(model: nn.Module) -> bool:
    """Whether a layer says that it drops something; others are noticed when they draw."""
    named = ("p", "dropout")
    rates = (getattr(layer, name, 0) for layer in model.modules() for name in named)
    return any(isinstance(rate, float) and rate > 0 for rate in rates)


def _again(draws: Draws | None, kept: Tensor) -> AbstractContextManager[None]:
    return frozen() if draws is None else draws.replay(kept.nonzero().flatten().tolist())


def _sentence(outcome: Outcome) -> str:
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
