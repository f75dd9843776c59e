"""One step of training, as the loop around it sees it: pieces to compute losses for, one by one."""

from collections.abc import Callable, Generator, Sequence

from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.training.batches import Piece
from sottovoce.training.gradients import Gradient


class Step:
    """One step of training: iterate over its pieces, and give each its losses."""

    def __init__(
        self,
        number: int,
        pieces: Sequence[Piece],
        gradient: Gradient,
        take: Callable[[int], None],
    ) -> None:
        self.number = number
        self.size = sum(len(piece.examples) for piece in pieces)
        self.finished = False
        self._pieces = pieces
        self._gradient = gradient
        self._take = take
        self._waiting: Piece | None = None

    def __iter__(self) -> Generator[Tensor]:
        """The examples of each piece, as indices. After the last one the step is taken."""
        self._gradient.begin()
        for piece in self._pieces:
            self._waiting = piece
            with self._gradient.piece(piece):
                yield piece.examples
            if self._waiting is not None:
                raise InvalidInput("Expected step.backward(losses) for every piece, got none.")
        self._gradient.finish()
        self._take(self.number)
        self.finished = True

    def backward(self, losses: Tensor) -> None:
        """The backward pass of this piece; `losses` has one entry for each of its examples."""
        if self._waiting is None:
            raise InvalidInput("Expected one backward for every piece, got another one.")
        self._gradient.backward(losses, self._waiting)
        self._waiting = None
