"""Batches of a plain map-style dataset for the pieces of a private step.

    batches = loader(dataset, collate_fn, num_workers=2)
    for step in training.steps():
        for batch in batches(step):
            step.backward(losses(model, batch))

Which examples are in a batch is decided by the step (Poisson sampling), so this replaces torch's
`DataLoader` and its samplers. With workers, the following pieces are read while one is trained on.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

from torch.multiprocessing import get_context
from torch.utils.data import default_collate

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.training.step import Step

Collate = Callable[[list[Any]], Any]
# Pieces that each worker reads ahead.
AHEAD = 2


class Loader:
    """Reads and collates examples by their numbers, in this process or in others."""

    def __init__(self, dataset: Any, collate_fn: Collate, num_workers: int) -> None:
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise InvalidInput(
                "Expected a dataset with a length and examples by number, got "
                f"{type(dataset).__name__}: Poisson sampling picks examples from all of them."
            )
        self._dataset, self._collate = dataset, collate_fn
        self._workers = int(_validate.not_negative("num_workers", num_workers))
        self._pool: ProcessPoolExecutor | None = None

    def __len__(self) -> int:
        return len(self._dataset)

    def __call__(self, step: Step) -> Iterator[Any]:
        """The batches of the pieces of a step."""
        if not self._workers:
            for examples in step:
                yield read(self._dataset, self._collate, examples.tolist())
            return
        planned = deque(piece.tolist() for piece in step.pieces)
        waiting: deque[tuple[list[int], Future[Any]]] = deque()
        for examples in step:
            while planned and len(waiting) < AHEAD * self._workers:
                waiting.append((planned[0], self._submit(planned.popleft())))
            wanted = examples.tolist()
            # The neighbour check asks for pieces that nobody planned.
            ready = waiting.popleft()[1] if waiting and waiting[0][0] == wanted else None
            yield (ready or self._submit(wanted)).result()

    def close(self) -> None:
        """End the worker processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _submit(self, examples: list[int]) -> "Future[Any]":
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._workers,
                mp_context=get_context(),
                initializer=_begin,
                initargs=(self._dataset, self._collate),
            )
        return self._pool.submit(_read_here, examples)


def loader(dataset: Any, collate_fn: Collate = default_collate, num_workers: int = 0) -> Loader:
    """Batches of a map-style dataset, collated like those of torch's `DataLoader`."""
    return Loader(dataset, collate_fn, num_workers)


def read(dataset: Any, collate_fn: Collate, examples: Sequence[int]) -> Any:
    fetch = getattr(dataset, "__getitems__", None)
    return collate_fn(fetch(list(examples)) if fetch else [dataset[i] for i in examples])


_here: tuple[Any, Collate] | None = None


def _begin(dataset: Any, collate_fn: Collate) -> None:
    global _here
    _here = dataset, collate_fn


def _read_here(examples: list[int]) -> Any:
    assert _here is not None
    return read(*_here, examples)
