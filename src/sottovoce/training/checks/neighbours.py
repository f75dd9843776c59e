"""The neighbour check: measure, while training, the sensitivity that the ledger states.

The ledger says that one unit moves the clipped sum by at most C. Rules, norms and the independence
of examples are reasons to believe it; this tests it. A piece goes through the model, then the same
without one unit, at the same weights and with the same dropout, and the sums are compared: they
must differ by exactly the clipped gradient of the unit left out, computed by a plain backward pass
of that unit alone. Later checks take a few units and compare what one of them adds to the sum with
that gradient. Whatever breaks the claim (a layer recorded wrongly, a model that
mixes examples, a loss divided by a number of the batch) shows, whatever its cause.

The passes are made by the training loop itself: it is handed the piece again, and nothing of them
is released. They come with the first steps, whenever the loop does something it has not done
before, and at random for ever. Where the check fails, training stops.

It also stops where a loop does not do the same thing twice, because then nothing can be shown: a
memory of earlier examples looks like that. Random numbers are no excuse as long as they come from
the global generators of torch, numpy and Python: those are repeated, or held still. For others,
somebody has to declare `own_randomness`, and the statement says so.
"""

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor, nn

from sottovoce.training.batches import Piece
from sottovoce.training.checks.forms import Form
from sottovoce.training.checks.randomness import Draws, OtherGenerators, undisturbed
from sottovoce.training.checks.sensitivity import FEW, Result, Sensitivity, Trial, sentence
from sottovoce.training.clipping.gradients import ClippedGradient
from sottovoce.training.errors import NeighbourCheckFailed

# The first step and whatever runs other rules than before are checked with the whole piece, at
# once. Inputs of another magnitude are checked with a few units, which costs about a third of a
# step of a small model and a tenth of that of a large one, as long as there is an allowance:
# AT_FIRST, and one more every EVERY steps. It is more than texts need; where it runs out, a size is
# checked when it comes again. And one in RARELY steps is checked at random, for ever.
RARELY = 256
AT_FIRST, EVERY = 12, 256
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


@dataclass
class _Watched:
    """The pass of a piece in training, measured as it was made."""

    piece: Piece
    draws: Draws
    others: OtherGenerators
    result: Result | None = None


@dataclass(frozen=True)
class _Check:
    """What to check: one group of a whole piece, or of a few units."""

    part: Piece
    group: int
    whole: bool


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
        """Structures of passes and sizes of inputs."""
        self._familiar: set[object] = set()
        """Forms with a known structure and known sizes."""
        self._new: list[_Seen] = []
        self._unfamiliar: list[_Seen] = []
        self._allowance = float(AT_FIRST)
        self._draws_seen = _draws(model)
        self._any: _Seen | None = None
        self._watched: _Watched | None = None
        self._steps = 0
        self._next = 1
        self._before = torch.zeros(0)
        self._largest = 0
        """The most units that were checked at once."""

    @contextmanager
    def watching(self, piece: Piece) -> Iterator[None]:
        """Around the pass of a piece in training.

        The first piece of all is checked whole, so one of the passes has been made already if the
        training's own is measured.
        """
        before = self._watched
        if before is not None and before.result is not None:
            # This piece is added to the sums that are still to be looked at.
            self._sensitivity.keep(before.result)
        first = self._steps == 0 and before is None and len(piece.examples) > 0
        if not first or not self._gradient.by_group:
            yield
            return
        draws = Draws(len(piece.examples), watch=self._draws_seen)
        self._watched = _Watched(piece, draws, OtherGenerators())
        with draws.record():
            yield
        self._watched.others.look()
        self._watched.result = self._sensitivity.watched()

    def saw(self, piece: Piece) -> None:
        """A piece of the step went through the model: was anything about it new?"""
        examples, count = piece.examples.shape[0], piece.sizes.shape[0]
        if examples == 0:
            return
        seen = _Seen(piece, self._gradient.norms)
        form = self._gradient.form()
        key = (form, count > 1, examples > count, *[p.dtype for p in self._parameters])
        if key not in self._familiar or count > 2 * self._largest:
            self._meet(seen, form, key)
        if self._any is None or self._random.random() < 0.5:
            self._any = seen

    def _meet(self, seen: _Seen, form: Form, key: tuple[object, ...]) -> None:
        """A piece that differs in something from those before."""
        structure = (form.structure, *key[1:])
        if structure not in self._known or seen.piece.count > 2 * self._largest:
            self._new.append(seen)
            self._largest = max(self._largest, seen.piece.count)
            self._known.add(structure)
        elif not form.sizes <= self._known:
            if self._allowance < 1:
                return
            self._allowance -= 1
            self._unfamiliar.append(seen)
        self._known |= form.sizes
        self._familiar.add(key)

    def trials(self) -> Iterator[Trial]:
        """The passes to make before this step is released; none in most steps."""
        number, self._steps = self._steps, self._steps + 1
        new, unfamiliar, some = self._new, self._unfamiliar, self._any
        self._new, self._unfamiliar, self._any = [], [], None
        self._allowance += 1 / EVERY
        checks = [self._whole(seen) for seen in new]
        checks += [self._few(seen) for seen in unfamiliar]
        if number >= self._next and some is not None:
            self._next = number + _gap(self._random)
            whole = self._random.random() < 1 / WHOLE
            checks = checks or [self._whole(some) if whole else self._few(some)]
        watched, self._watched = self._watched, None
        if not checks:
            return
        # A loop that leaves in the middle has shown nothing.
        shown = self._known, self._familiar, self._largest
        self._known, self._familiar, self._largest = set(), set(), 0
        self._before = self._weights()
        with undisturbed():
            for check in checks:
                own = watched is not None and watched.piece is check.part
                yield from self._check(check, watched if own else None)
        if self._weights_moved():
            self._stop(MOVES_WEIGHTS)
        self._known, self._familiar, self._largest = shown

    def _whole(self, seen: _Seen) -> _Check:
        """All of a piece, without the unit that has the largest norm."""
        norms = torch.nan_to_num(seen.norms, nan=0.0, posinf=0.0)
        return _Check(seen.piece, int(norms.argmax()) if len(norms) else 0, whole=True)

    def _few(self, seen: _Seen) -> _Check:
        """The unit with the largest norm and a few others, and one of them by itself."""
        largest = self._whole(seen).group
        count = seen.piece.count
        others = [group for group in range(count) if group != largest]
        # In a smaller company, it is more often the one who is influenced that is looked at.
        few = max(2, min(self._random.choice([2, FEW]), count // 8))
        chosen = sorted([largest, *self._random.sample(others, min(few - 1, len(others)))])
        anyone = self._random.randrange(len(chosen))
        return _Check(seen.piece.only(chosen), anyone, whole=False)

    def _check(self, check: _Check, watched: _Watched | None) -> Iterator[Trial]:
        part, group, measure = check.part, check.group, self._sensitivity
        draws, others = Draws(len(part.examples), watch=self._draws_seen), OtherGenerators()
        full = None
        if watched is not None:
            draws, others, full = watched.draws, watched.others, watched.result
        if check.whole:
            outcome = yield from measure.leave_out(part, group, draws, others, full)
        else:
            outcome = yield from measure.share(part, group, draws, others)
        # Training's own first pass looks at gradients once more, which may draw again.
        if draws.surprised or (full is not None and draws.any and not outcome.holds):
            self._draws_seen, draws, others = True, Draws(len(part.examples)), OtherGenerators()
            if check.whole:
                outcome = yield from measure.leave_out(part, group, draws, others)
            else:
                outcome = yield from measure.share(part, group, draws, others)
        if not outcome.holds and (others.moved or not draws.aligned):
            # Where draws are held still, those of the others stay as they were if the one who is
            # left out comes last.
            part, group = part.last(group)
            others.moved = False
            with others.still():
                outcome = yield from measure.leave_out(part, group, None, others)
                if outcome.holds:
                    self._assume(DROPOUT_OFF)
        if outcome.holds:
            return
        # Before the model is blamed: does the loop do the same thing twice?
        repeats = not others.moved and (yield from measure.repeats(part, others))
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


def _gap(source: random.Random) -> int:
    """Steps until the next check, if each has one in RARELY chances."""
    return 1 + int(math.log(1 - source.random()) / math.log1p(-1 / RARELY)) if RARELY > 1 else 1


def _draws(model: nn.Module) -> bool:
    """Whether a layer says that it drops something; others are noticed when they draw."""
    named = ("p", "dropout")
    rates = (getattr(layer, name, 0) for layer in model.modules() for name in named)
    return any(isinstance(rate, float) and rate > 0 for rate in rates)
