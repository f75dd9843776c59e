"""The parts cover the gradient, and each has its noise before it is sent."""

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from sottovoce.training import Plan, PrivateTraining, Worker, distributed
from sottovoce.training.distributed import parts


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9), st.booleans()), max_size=6),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_parts_are_all_of_the_tensors(
    shapes: list[tuple[int, int, bool]], small: int, piece: int
) -> None:
    tensors = [
        torch.zeros(columns, rows).t() if turned else torch.zeros(rows, columns)
        for rows, columns, turned in shapes
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "SMALL", small)
        patch.setattr(distributed, "PIECE", piece)
        found = list(parts(tensors, [float(i) for i in range(len(tensors))]))
    for part in found:
        for view, std in zip(part.tensors, part.stds, strict=True):
            view += std + 1
        assert len(part.tensors) == 1 or all(
            view.numel() < small or not view.is_contiguous() for view in part.tensors
        )
    for i, tensor in enumerate(tensors):
        assert torch.equal(tensor, torch.full_like(tensor, i + 1))  # each element once, its own std


class Finished:
    def wait(self) -> None: ...


def test_nothing_leaves_a_worker_before_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a gradient of zeros, every part that is sent is noise, and arrives summed."""
    left: list[Tensor] = []

    def all_reduce(flat: Tensor, async_op: bool) -> Finished:
        assert async_op
        left.append(flat.clone())
        flat.mul_(2)  # the other worker did the same
        return Finished()

    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    monkeypatch.setattr(distributed, "SMALL", 50)
    monkeypatch.setattr(distributed, "PIECE", 30)
    model = nn.Sequential(nn.Linear(10, 8), nn.Linear(8, 3))
    start = [p.detach().clone() for p in model.parameters()]
    plan = Plan(population=4, batch_size=4, epochs=1, delta=1e-5, workers=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    training = PrivateTraining(plan, model, optimizer, owners=4)
    training._worker = Worker(rank=0, count=2)
    for step in training.steps():
        for batch in step:
            step.backward(model(torch.ones(len(batch), 10)).sum(1) * 0)
    assert [len(flat) for flat in left] == [35, 30, 30, 20]  # two biases and a weight, then pieces
    assert all((flat != 0).all() for flat in left)
    moved = torch.cat(
        [(p - s).detach().flatten() for p, s in zip(model.parameters(), start, strict=True)]
    )
    assert torch.allclose(moved.abs().sort().values, 2 * torch.cat(left).abs().sort().values)
