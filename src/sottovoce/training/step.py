"""One step of training, as the loop around it sees it: pieces to compute losses for, one by one."""

from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext

from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.training.batches import Piece
from sottovoce.training.checks.neighbours import NeighbourCheck
from sottovoce.training.checks.sensitivity import Trial
from sottovoce.training.clipping.gradients import Gradient


class Step:
    """One step of training: iterate over its pieces, once, and give each its losses.

    Now and then a step hands out some examples again, after its `size` examples, to measure how far
    one of them moves the sum (see `neighbours`). The loop treats them like any others. No flag
    tells them apart: what a loop does for some passes only is what such a check could not see.
    """

    def __init__(
        self,
        number: int,
        pieces: Sequence[Piece],
        gradient: Gradient,
        take: Callable[["Step", list[Tensor]], None],
        check: NeighbourCheck | None = None,
        watch: Callable[["Step"], None] = lambda _: None,
    ) -> None:
        self._number = number
        self._size = sum(len(piece.examples) for piece in pieces)
        self._finished = False
        self._pieces = pieces
        self._gradient = gradient
        self._take = take
        self._check = check
        self._watch = watch
        self._begun = False
        self._waiting: Callable[[Tensor], None] | None = None

    @property
    def number(self) -> int:
        """The place of this step in the training, from 0."""
        return self._number

    @property
    def size(self) -> int:
        """How many examples were sampled. Private: do not publish it."""
        return self._size

    @property
    def pieces(self) -> list[Tensor]:
        """The examples of the pieces to come, for loaders that read ahead.

        The loop over the step may get further ones, from the neighbour check.
        """
        return [piece.examples.clone() for piece in self._pieces]

    @property
    def finished(self) -> bool:
        return self._finished

    def __iter__(self) -> Generator[Tensor]:
        """The examples of each piece, as indices. After the last one the step is taken."""
        if self._begun:
            raise InvalidInput(
                f"Expected one loop over the pieces of step {self.number}, got another: its noise "
                "was paid for once. Take the next step."
            )
        self._begun = True
        self._gradient.begin()
        for piece in self._pieces:
            self._waiting = lambda losses, piece=piece: self._gradient.backward(losses, piece)
            watching = nullcontext() if self._check is None else self._check.watching(piece)
            with watching, self._gradient.piece(piece):
                yield piece.examples.clone()  # the loop may write to what it is given
            self._check_done()
            if self._check is not None:
                self._check.saw(piece)
        for trial in self._check.trials() if self._check is not None else ():
            yield from self._try(trial)
        self._take(self, self._gradient.finish())
        self._finished = True

    def backward(self, losses: Tensor) -> None:
        """The backward pass of this piece; `losses` has one entry for each of its examples."""
        if self._waiting is None:
            raise InvalidInput("Expected one backward for every piece, got another one.")
        self._waiting(losses)
        self._waiting = None

    def _try(self, trial: Trial) -> Generator[Tensor]:
        self._waiting = trial.backward
        with trial.context:
            yield trial.piece.examples.clone()
        self._check_done()

    def _check_done(self) -> None:
        if self._waiting is not None:
            raise InvalidInput("Expected step.backward(losses) for every piece, got none.")
        self._watch(self)
