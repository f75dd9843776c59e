"""Batches of map-style datasets, in this process and in others."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset

from sottovoce.errors import InvalidInput
from sottovoce.training import Plan, PrivateTraining, loader

POPULATION = 40


class Numbers(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return POPULATION

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return torch.tensor([place, 1.0]), place


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


@pytest.mark.parametrize("workers", [0, 2])
def test_the_batches_are_those_of_the_step(workers: int) -> None:
    model = nn.Linear(2, 1)
    plan = Plan(population=POPULATION, batch_size=20, virtual_batch=4, epochs=1, delta=1e-3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    training = PrivateTraining(plan, model, optimizer, owners=POPULATION, seed=1)
    batches = loader(Numbers(), num_workers=workers)
    for step in training.steps():
        planned = [piece.tolist() for piece in step.pieces]
        seen = []
        for x, places in batches(step):
            assert x[:, 0].tolist() == places.tolist()
            seen.append(places.tolist())
            step.backward(model(x).squeeze(1))
        assert seen[: len(planned)] == planned
    batches.close()
    assert training.guarantee().epsilon < 10


def test_a_stream_is_refused() -> None:
    with pytest.raises(InvalidInput, match="with a length"):
        loader(Endless())
