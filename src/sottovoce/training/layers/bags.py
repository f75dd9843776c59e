"""`nn.EmbeddingBag`: a lookup followed by the sum, mean or maximum of each bag."""

import math

import torch
from torch import Tensor, nn

from sottovoce.training.layers.linear import lookup
from sottovoce.training.layers.registry import rule_for
from sottovoce.training.records.tape import Tape


def _refuse(module: nn.EmbeddingBag) -> str | None:
    if module.max_norm is not None:
        return "max_norm changes the rows that were looked up, without noise: set it to None"
    if module.scale_grad_by_freq:
        return "scale_grad_by_freq weights one example by the words of others: set it to False"
    return None


@rule_for(nn.EmbeddingBag, refuse=_refuse)
def bag_rule(
    module: nn.EmbeddingBag,
    tape: Tape,
    input: Tensor,
    offsets: Tensor | None = None,
    per_sample_weights: Tensor | None = None,
) -> Tensor:
    inside = torch.ones_like(input, dtype=torch.bool)
    if offsets is not None:
        place = _places(input, offsets, last_is_end=module.include_last_offset)
        inside = place >= 0
        input = input[place.clamp(min=0)]
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights[place.clamp(min=0)]
    if module.padding_idx is not None:
        inside = inside & (input != module.padding_idx)
    rows = lookup(tape, input, module.weight)
    outside = ~inside.unsqueeze(2)
    if module.mode == "max":
        found = rows.masked_fill(outside, -math.inf).amax(1)
        return found.masked_fill(~inside.any(1, keepdim=True), 0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(2)
    total = rows.masked_fill(outside, 0).sum(1)
    return total / inside.sum(1, keepdim=True).clamp(min=1) if module.mode == "mean" else total


def _places(input: Tensor, offsets: Tensor, *, last_is_end: bool) -> Tensor:
    """[bags, longest] the places of each bag's words in a flat input, -1 where it has no more."""
    starts = offsets[:-1] if last_is_end else offsets
    ends = torch.cat([offsets[1:], offsets.new_tensor([] if last_is_end else [len(input)])])
    longest = int((ends - starts).max()) if len(starts) else 0
    places = starts.unsqueeze(1) + torch.arange(longest, device=input.device)
    return places.masked_fill(places >= ends.unsqueeze(1), -1)
