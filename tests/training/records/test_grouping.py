"""Groups of equal size share a bucket, and every example is in exactly one group."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import InvalidInput
from sottovoce.training.records.grouping import Grouping

labels = st.lists(st.integers(0, 5), max_size=12).map(lambda x: torch.tensor(x, dtype=torch.int64))


@given(labels=labels, spare=st.integers(0, 3))
def test_every_row_is_in_the_block_of_its_group(labels: torch.Tensor, spare: int) -> None:
    count = (int(labels.max()) + 1 if len(labels) else 0) + spare
    grouping = Grouping.of(labels, count)
    rows = torch.randn(len(labels), 2, 3)
    joined = grouping.join([b.take(rows).sum(1) for b in grouping.buckets], rows, 3)
    expected = torch.zeros(count, 3).index_add_(0, labels, rows.sum(1))
    torch.testing.assert_close(joined, expected)
    torch.testing.assert_close(grouping.sums(rows.sum(1)), expected)


def test_neighbours_are_not_copied() -> None:
    rows = torch.randn(6, 2, 3)
    for grouping in (
        Grouping.singletons(6, rows.device),
        Grouping.of(torch.arange(6)),
        Grouping.of(torch.arange(6) // 3),
        Grouping.of(torch.zeros(6, dtype=torch.int64)),
    ):
        (bucket,) = grouping.buckets
        assert bucket.take(rows).data_ptr() == rows.data_ptr()


def test_only_singletons_in_order_are_trivial() -> None:
    assert Grouping.of(torch.arange(4)).is_trivial
    assert not Grouping.of(torch.tensor([1, 0, 2])).is_trivial
    assert not Grouping.of(torch.tensor([0, 1, 1])).is_trivial
    assert not Grouping.of(torch.arange(3), count=4).is_trivial


@pytest.mark.parametrize(
    ("labels", "count", "message"),
    [
        (torch.tensor([0.0]), None, "int64"),
        (torch.tensor([[0]]), None, "vector"),
        (torch.tensor([-1]), None, ">= 0, got -1"),
        (torch.tensor([3]), 3, "count > 3"),
    ],
)
def test_what_is_no_partition(labels: torch.Tensor, count: int | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Grouping.of(labels, count)
