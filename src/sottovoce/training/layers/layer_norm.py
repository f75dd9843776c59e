"""y = w * x̂ + c with x̂ = (x - mean) / deviation: dL/dw = sum_r x̂_r * b_r, dL/dc = sum_r b_r."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sottovoce.training.kernel.products import kernel_for
from sottovoce.training.layers.function import apply
from sottovoce.training.layers.registry import rule_for
from sottovoce.training.layers.scale import record_scale_and_shift, record_totals
from sottovoce.training.records.tape import Tape


class _LayerNorm(Function):
    """torch's own kernels, asked for the gradient of the input only."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, anchor: Tensor, tape: Tape, module: nn.LayerNorm
    ) -> Tensor:
        outputs, mean, scale = torch.native_layer_norm(
            inputs, module.normalized_shape, module.weight, module.bias, module.eps
        )
        ctx.save_for_backward(inputs, mean, scale)
        ctx.tape, ctx.module = tape, module
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, mean, scale = ctx.saved_tensors
        module: nn.LayerNorm = ctx.module
        _record(ctx.tape, module, gradients, inputs, mean, scale)
        upstream = None
        if ctx.needs_input_grad[0]:
            upstream, _, _ = torch.ops.aten.native_layer_norm_backward(
                gradients,
                inputs,
                list(module.normalized_shape),
                mean,
                scale,
                module.weight,
                module.bias,
                [True, False, False],
            )
        return upstream, None, None, None


def _record(
    tape: Tape, module: nn.LayerNorm, gradients: Tensor, inputs: Tensor, mean: Tensor, scale: Tensor
) -> None:
    width = math.prod(module.normalized_shape)
    kernel = kernel_for(inputs, gradients, mean, scale) if inputs.numel() else None
    if kernel is None:
        products = (inputs - mean).mul_(scale).mul_(gradients)
        record_scale_and_shift(tape, module.weight, module.bias, products, gradients, (width, 1))
        return
    shape = tape.grouping.examples, -1, width
    totals = kernel.norm_sums(inputs.view(shape), gradients.view(shape), mean, scale)
    for parameter, total in zip((module.weight, module.bias), totals, strict=True):
        if parameter is not None and parameter.requires_grad:
            record_totals(tape, parameter, total)


@rule_for(nn.LayerNorm)
def layer_norm_rule(module: nn.LayerNorm, tape: Tape, input: Tensor) -> Tensor:
    outputs: Tensor = apply(_LayerNorm, tape.batched(input), tape.anchor, tape, module)
    return outputs
