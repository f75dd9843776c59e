"""`nn.MultiheadAttention`: three input projections in one matrix, attention, output projection.

Attention itself has no parameters and runs as plain torch. If query, key and value are the same
tensor, the packed matrix is one linear layer. If they differ, each row is multiplied by one third
of the matrix, and the gradient of its other outputs is zero.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from sottovoce.training.layers.linear import linear
from sottovoce.training.layers.per_example import copies, expanded
from sottovoce.training.layers.registry import all_parameters, apply, rule_for
from sottovoce.training.records.tape import Tape, record_outer_product


@rule_for(nn.MultiheadAttention, covers=all_parameters)
def attention_rule(
    module: nn.MultiheadAttention,
    tape: Tape,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,  # noqa: ARG001 (a hint about attn_mask, which is given too)
) -> tuple[Tensor, Tensor | None]:
    mask = _merged_mask(module, query, key_padding_mask, attn_mask)
    same = query is key and key is value
    if not module.batch_first:
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    projected = _with_learned(module, tape, *_project(module, tape, query, key, value, same))
    q, k, v = (
        x.reshape(*x.shape[:2], module.num_heads, module.head_dim).transpose(1, 2)
        for x in projected
    )
    if mask is not None:  # the keys added are visible to everybody
        mask = functional.pad(mask, (0, k.shape[2] - mask.shape[-1]))
    dropout = module.dropout if module.training else 0.0
    weights = None
    if need_weights:
        scores = q @ k.transpose(-2, -1) / math.sqrt(module.head_dim)
        weights = (scores if mask is None else scores + mask).softmax(-1)
        weights = functional.dropout(weights, dropout)
        mixed = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        mixed = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
    out = module.out_proj
    outputs = linear(tape, mixed.transpose(1, 2).flatten(2), out.weight, out.bias)
    return (outputs if module.batch_first else outputs.transpose(0, 1)), weights


def _project(
    module: nn.MultiheadAttention, tape: Tape, query: Tensor, key: Tensor, value: Tensor, same: bool
) -> tuple[Tensor, ...]:
    packed, bias = module.in_proj_weight, module.in_proj_bias
    if packed is not None and same:
        return linear(tape, query, packed, bias).chunk(3, -1)
    sources = tuple(tape.batched(x) for x in (query, key, value))
    if packed is not None:
        projected: tuple[Tensor, ...] = apply(
            _PackedProjections, *sources, tape.anchor, tape, (packed, bias)
        )
        return projected
    weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    unshifted = (linear(tape, x, w, None) for x, w in zip(sources, weights, strict=True))
    if bias is None:
        return tuple(unshifted)
    fold = len(sources[0]) // max(tape.grouping.examples, 1)
    shifts = expanded(tape, bias).repeat_interleave(fold, 0).unsqueeze(1).chunk(3, -1)
    return tuple(x + shift for x, shift in zip(unshifted, shifts, strict=True))


def _with_learned(
    module: nn.MultiheadAttention, tape: Tape, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, ...]:
    """`add_bias_kv` adds a learned key and value, `add_zero_attn` a key and value of zeros."""
    if module.bias_k is not None and module.bias_v is not None:
        added = (
            copies(tape, bias, (len(k), 1, bias.shape[-1]))
            if bias.requires_grad
            else bias.expand(len(k), 1, -1)
            for bias in (module.bias_k, module.bias_v)
        )
        k, v = (torch.cat([x, bias], 1) for x, bias in zip((k, v), added, strict=True))
    if module.add_zero_attn:
        k, v = (functional.pad(x, (0, 0, 0, 1)) for x in (k, v))
    return q, k, v


class _PackedProjections(Function):
    """Each third of one matrix multiplies a different input."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        anchor: Tensor,
        tape: Tape,
        parameters: tuple[Tensor, Tensor | None],
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(query, key, value)
        weight, bias = parameters
        ctx.tape, ctx.weight, ctx.bias = tape, weight, bias
        shifts = (None, None, None) if bias is None else bias.chunk(3)
        thirds = zip((query, key, value), weight.chunk(3), shifts, strict=True)
        return tuple(functional.linear(x, w, c) for x, w, c in thirds)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        tape: Tape = ctx.tape
        width = ctx.weight.shape[0] // 3
        inputs = torch.cat([tape.rows(x) for x in ctx.saved_tensors], 1)
        padded = [
            functional.pad(tape.rows(b), (third * width, (2 - third) * width))
            for third, b in enumerate(gradients)
        ]
        record_outer_product(tape, ctx.weight, (ctx.bias,), inputs, torch.cat(padded, 1))
        upstream = (b @ w for b, w in zip(gradients, ctx.weight.chunk(3), strict=True))
        return *upstream, None, None, None


def _merged_mask(
    module: nn.MultiheadAttention, like: Tensor, padding: Tensor | None, attention: Tensor | None
) -> Tensor | None:
    """The additive mask of the scores, [examples or 1, heads or 1, queries, keys]."""
    masks = []
    if padding is not None:
        masks.append(_as_scores(padding, like)[:, None, None, :])
    if attention is not None:
        scores = _as_scores(attention, like)
        if scores.dim() == 3:  # one mask per example and head
            scores = scores.reshape(-1, module.num_heads, *scores.shape[1:])
        masks.append(scores)
    return sum(masks[1:], masks[0]) if masks else None


def _as_scores(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(mask, -math.inf)
    return mask.to(like.dtype)
