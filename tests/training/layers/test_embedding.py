"""Tables: padding, repeated words, several tables on one sequence, tied with an output layer."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.reference import Partition, assert_exact, few, partitions, score, seeds
from torch import nn

from sottovoce.training.clipping.bookkeeping import BookKeeper
from sottovoce.training.errors import UnsupportedLayer


@few
@given(
    partition=partitions(5),
    words=st.integers(2, 40),
    inner=st.sampled_from([(), (1,), (6,), (3, 2)]),
    padding=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=seeds,
)
def test_any_ids(
    partition: Partition,
    words: int,
    inner: tuple[int, ...],
    padding: bool,
    dtype: torch.dtype,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    table = nn.Embedding(words, 4, padding_idx=1 if padding else None, dtype=dtype)
    ids = torch.randint(min(words, 9), (5, *inner))
    assert_exact(table, lambda: score(table(ids), 5), partition)


def test_nothing_but_padding() -> None:
    table = nn.Embedding(50, 4, padding_idx=0)
    ids = torch.zeros(3, 2, dtype=torch.int64)
    assert_exact(table, lambda: score(table(ids), 3), Partition(None, 3))


class Tied(nn.Module):
    """A language model whose output layer is its table."""

    def __init__(self, words: int, width: int, bias: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, words, bias=bias)
        self.head.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.mix(self.table(ids)).tanh()
        scores: torch.Tensor = self.head(hidden)
        return scores


@few
@given(
    partition=partitions(4),
    words=st.sampled_from([3, 60]),
    length=st.integers(1, 6),
    bias=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=seeds,
)
def test_tied_with_the_output_layer(
    partition: Partition, words: int, length: int, bias: bool, dtype: torch.dtype, seed: int
) -> None:
    torch.manual_seed(seed)
    model = Tied(words, 20, bias).to(dtype)
    ids = torch.randint(words, (4, length))
    assert_exact(model, lambda: score(model(ids), 4), partition)


@few
@given(partition=partitions(4), words=st.sampled_from([4, 80]), seed=seeds)
def test_one_table_for_two_texts(partition: Partition, words: int, seed: int) -> None:
    torch.manual_seed(seed)
    table = nn.Embedding(words, 3).double()
    asked, answered = torch.randint(min(words, 9), (4, 5)), torch.randint(min(words, 9), (4, 3))

    def losses() -> torch.Tensor:
        return score(table(asked).mean(1) * table(answered).mean(1), 4)

    assert_exact(table, losses, partition)


@pytest.mark.parametrize("option", [{"max_norm": 1.0}, {"scale_grad_by_freq": True}])
def test_options_that_mix_examples_are_refused(option: dict[str, float]) -> None:
    model = nn.Sequential(nn.Embedding(5, 2, **option))  # type: ignore[arg-type]
    with pytest.raises(UnsupportedLayer, match="set it to"):
        BookKeeper(model)
