"""`nn.MultiheadAttention`: self- and cross-attention, masked, and in torch's encoder layer."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.reference import Partition, assert_exact, few, partitions, score, seeds
from torch import Tensor, nn

from sottovoce.training.clipping.bookkeeping import BookKeeper

EXAMPLES, WIDTH, HEADS = 4, 6, 2

masks = st.fixed_dictionaries(
    {
        "padding": st.booleans(),
        "attention": st.sampled_from(["none", "one for all", "one for each"]),
        "need_weights": st.booleans(),
    }
)


def make_masks(masks: dict[str, Any], queries: int, keys: int) -> dict[str, Any]:
    options: dict[str, Any] = {"need_weights": masks["need_weights"]}
    if masks["padding"]:
        options["key_padding_mask"] = torch.rand(EXAMPLES, keys) < 0.3
        options["key_padding_mask"][:, 0] = False
    if masks["attention"] != "none":
        lead = () if masks["attention"] == "one for all" else (EXAMPLES * HEADS,)
        options["attn_mask"] = torch.rand(*lead, queries, keys) < 0.3
        options["attn_mask"][..., 0] = False
    return options


@few
@given(
    partition=partitions(EXAMPLES),
    masks=masks,
    across=st.booleans(),
    other_widths=st.booleans(),
    bias=st.booleans(),
    batch_first=st.booleans(),
    seed=seeds,
)
def test_any_attention(
    partition: Partition,
    masks: dict[str, Any],
    across: bool,
    other_widths: bool,
    bias: bool,
    batch_first: bool,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    widths = {"kdim": 5, "vdim": 4} if across and other_widths else {}
    layer = nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=batch_first, **widths)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    keys = 2 if across else 3
    query = torch.randn(EXAMPLES, 3, WIDTH)
    key = torch.randn(EXAMPLES, keys, widths.get("kdim", WIDTH)) if across else query
    value = torch.randn(EXAMPLES, keys, widths.get("vdim", WIDTH)) if across else query
    options = make_masks(masks, 3, keys)

    def run() -> Tensor:
        inputs: Any = (query, key, value)
        if not batch_first:
            turned = query.transpose(0, 1)
            inputs = (key.transpose(0, 1), value.transpose(0, 1)) if across else (turned, turned)
            inputs = (turned, *inputs)
        outputs, _ = layer(*inputs, **options)
        return score(outputs if batch_first else outputs.transpose(0, 1), EXAMPLES)

    if partition.groups is None:
        partition = Partition(torch.arange(EXAMPLES), EXAMPLES)
    torch.manual_seed(seed)
    keeper = BookKeeper(layer)
    with keeper.record(partition.groups, partition.count):
        torch.testing.assert_close(run(), plain(layer, run))
    assert_exact(layer, run, partition)


def plain(layer: nn.Module, run: Any) -> Tensor:
    with torch.no_grad():
        losses: Tensor = run()
    return losses


@pytest.mark.parametrize("average", [True, False])
def test_same_attention_weights(average: bool) -> None:
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x = torch.randn(EXAMPLES, 3, WIDTH)
    _, expected = layer(x, x, x, average_attn_weights=average)
    with BookKeeper(layer).record():
        _, actual = layer(x, x, x, average_attn_weights=average)
    torch.testing.assert_close(actual, expected)


def test_only_the_output_projection_is_trained() -> None:
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).requires_grad_(False)
    layer.out_proj.requires_grad_(True)
    x = torch.randn(EXAMPLES, 3, WIDTH)
    assert_exact(layer, lambda: score(layer(x, x, x)[0], EXAMPLES), Partition(None, EXAMPLES))


def test_inside_of_an_encoder_layer() -> None:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 12, dropout=0.0, batch_first=True)
    x = torch.randn(EXAMPLES, 3, WIDTH)
    padding = torch.tensor([[False, False, False], [False, True, True]] * 2)
    assert_exact(
        layer,
        lambda: score(layer(x, src_key_padding_mask=padding), EXAMPLES),
        Partition(None, EXAMPLES),
    )


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("zeros", [True, False])
def test_learned_keys_and_zero_keys(batch_first: bool, zeros: bool) -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(
        WIDTH, HEADS, batch_first=batch_first, add_bias_kv=True, add_zero_attn=zeros
    )
    x = torch.randn((4, 5, WIDTH) if batch_first else (5, 4, WIDTH))
    causal = torch.ones(5, 5).triu(1).bool()
    padding = torch.arange(5) >= torch.tensor([[5], [2], [4], [3]])

    def losses() -> torch.Tensor:
        outputs = layer(x, x, x, key_padding_mask=padding, attn_mask=causal)[0]
        return score(outputs if batch_first else outputs.transpose(0, 1), 4)

    assert_exact(layer, losses, Partition(torch.tensor([0, 1, 1, 2]), 3))
