"""Elementwise affine maps, y = w * x + c: the learned part of normalisation layers.

RMSNorm, GroupNorm and InstanceNorm run as torch's normalisation without parameters, followed by
this map.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from sottovoce.training.kernel.products import kernel_for
from sottovoce.training.layers.registry import apply, rule_for
from sottovoce.training.records.grouping import norm_dtype
from sottovoce.training.records.records import Instantiated
from sottovoce.training.records.tape import Tape


def record_scale_and_shift(
    tape: Tape,
    weight: Tensor | None,
    bias: Tensor | None,
    products: Tensor,
    gradients: Tensor,
    layout: tuple[int, int],
) -> None:
    """dL/dw = sum x * b and dL/dc = sum b, over all dimensions that w and c do not have.

    `products` are x * b. `layout` is (n, m): the n numbers of w have stride m.
    """
    width, inner = layout
    examples = tape.grouping.examples
    fold = gradients.numel() // (examples * width * inner) if gradients.numel() else 0

    def total(x: Tensor) -> Tensor:
        return x.reshape(examples, fold, width, inner).sum((1, 3), dtype=norm_dtype(x))

    if weight is not None and weight.requires_grad:
        record_totals(tape, weight, total(products))
    if bias is not None and bias.requires_grad:
        record_totals(tape, bias, total(gradients))


def record_totals(tape: Tape, parameter: Tensor, totals: Tensor) -> None:
    """Record `totals` [examples, size of the parameter], the gradient of each example."""
    summed = tape.grouping.sums(totals).view(-1, *parameter.shape)
    tape.add((parameter,), Instantiated(summed))


class _ScaleAndShift(Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        anchor: Tensor,
        tape: Tape,
        parameters: tuple[Tensor, Tensor | None],
        places: tuple[int, ...],
        inner: int,
    ) -> Tensor:
        ctx.save_for_backward(inputs)
        weight, bias = parameters
        ctx.tape, ctx.weight, ctx.bias, ctx.places, ctx.inner = tape, weight, bias, places, inner
        outputs = inputs * weight.view(places)
        return outputs if bias is None else outputs.add_(bias.view(places))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        (inputs,) = ctx.saved_tensors
        layout = ctx.weight.numel(), ctx.inner
        record_scale_and_shift(
            ctx.tape, ctx.weight, ctx.bias, inputs * gradients, gradients, layout
        )
        upstream = gradients * ctx.weight.view(ctx.places) if ctx.needs_input_grad[0] else None
        return upstream, None, None, None, None, None


def scale_and_shift(
    tape: Tape, inputs: Tensor, weight: Tensor | None, bias: Tensor | None, channels_last: bool
) -> Tensor:
    """inputs * weight + bias, recorded; the parameters apply to the last dimensions or to dim 1."""
    if weight is None:
        return inputs
    if channels_last:
        places, inner = tuple(weight.shape), 1
    else:
        places, inner = (-1, *[1] * (inputs.dim() - 2)), math.prod(inputs.shape[2:])
    outputs: Tensor = apply(
        _ScaleAndShift, inputs, tape.anchor, tape, (weight, bias), places, inner
    )
    return outputs


@rule_for(nn.RMSNorm)
def rms_norm_rule(module: nn.RMSNorm, tape: Tape, x: Tensor) -> Tensor:
    normalised = functional.rms_norm(
        tape.batched(x), list(module.normalized_shape), None, module.eps
    )
    return scale_and_shift(tape, normalised, module.weight, None, channels_last=True)


@rule_for(nn.GroupNorm)
def group_norm_rule(module: nn.GroupNorm, tape: Tape, input: Tensor) -> Tensor:
    normalised = functional.group_norm(tape.batched(input), module.num_groups, eps=module.eps)
    return scale_and_shift(tape, normalised, module.weight, module.bias, channels_last=False)


def instance_norm_rule(module: nn.InstanceNorm1d, tape: Tape, input: Tensor) -> Tensor:
    kept = module.track_running_stats and not module.training  # then the statistics are constants
    mean, variance = (module.running_mean, module.running_var) if kept else (None, None)
    normalised = functional.instance_norm(
        tape.batched(input), mean, variance, use_input_stats=not kept, eps=module.eps
    )
    return scale_and_shift(tape, normalised, module.weight, module.bias, channels_last=False)


for kind in (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d):
    rule_for(kind)(instance_norm_rule)


class _LayerNorm(Function):
    """LayerNorm by torch's kernels, with the gradient of the input only."""

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
