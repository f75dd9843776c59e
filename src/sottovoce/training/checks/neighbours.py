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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor, nn

from sottovoce.training.batches import Piece
from sottovoce.training.checks.randomness import Draws, OtherGenerators, undisturbed
from sottovoce.training.checks.sensitivity import FEW, Sensitivity, Trial, sentence
from sottovoce.training.clipping.gradients import ClippedGradient
from sottovoce.training.errors import NeighbourCheckFailed

# The first step and whatever runs other rules than before are checked with the whole piece, at
# once. Inputs of another magnitude are checked with a few units, which costs about a third of a
# piece, as long as there is an allowance: AT_FIRST, and one more every EVERY steps. It is more than
# texts need; where it runs out, a size is checked when it comes again. And one in RARELY steps is
# checked at random, for ever.
RARELY = 256
AT_FIRST, EVERY = 12, 160
# One in WHOLE of the checks at random is of a whole piece.
WHOLE = 32
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
        self._sensitivity = Sensitivity(model, gradient)
        self._parameters = [p for p in model.parameters() if p.requires_grad]
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
        measure = self._sensitivity.measure
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
        repeats = not others.moved and (yield from self._sensitivity.repeats(part, others))
        if repeats:
            self._stop(sentence(outcome))
        if not self._own_randomness:
            self._stop(NOT_REPEATABLE)
        self._assume(UNREPEATABLE)

    def _stop(self, why: str) -> NoReturn:
        why = MOVES_WEIGHTS if self._weights_moved() else why
        self._fail(why)
        raise NeighbourCheckFailed(why)

    def _weights_moved(self) -> bool:
        return not torch.equal(self._before, self._weights())

    def _weights(self) -> Tensor:
        return torch.stack([p.detach().float().sum() for p in self._parameters]).nan_to_num()


def _draws(model: nn.Module) -> bool:
    """Whether a layer says that it drops something; others are noticed when they draw."""
    named = ("p", "dropout")
    rates = (getattr(layer, name, 0) for layer in model.modules() for name in named)
    return any(isinstance(rate, float) and rate > 0 for rate in rates)
