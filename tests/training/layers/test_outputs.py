"""Memory for outputs is like torch's own: its shape, its type, its alignment."""

import pytest
import torch

from sottovoce.training.layers.registry import empty_output


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(0, 7), (3, 5), (16384, 1), (130, 511), (257, 4, 65)])
def test_it_is_an_empty_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    made = empty_output(shape, torch.zeros(1, dtype=dtype))
    assert made.shape == shape
    assert made.dtype == dtype
    assert made.is_contiguous()
    assert not made._is_view()
    assert made.numel() == 0 or made.data_ptr() % 64 == 0


def test_blocks_are_apart() -> None:
    blocks = [empty_output((200, 200), torch.zeros(1)).fill_(k) for k in range(20)]
    assert [float(block.mean()) for block in blocks] == list(range(20))


def test_a_block_outlives_what_it_was_cut_from() -> None:
    """Its memory is numpy's, and held by nothing but the tensor."""
    kept = empty_output((300, 300), torch.zeros(1)).fill_(7.0)
    for _ in range(50):
        empty_output((300, 300), torch.zeros(1)).fill_(0.0)
    assert bool((kept == 7).all())
