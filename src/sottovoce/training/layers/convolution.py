"""A convolution multiplies unfolded patches of its input by a matrix, one row per position.

On unfolded patches it is a `Linear` layer. With groups, its matrix has one block per group.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from sottovoce.training.layers.registry import apply, rule_for
from sottovoce.training.records.grouping import norm_dtype
from sottovoce.training.records.records import Instantiated
from sottovoce.training.records.tape import Tape, record_outer_product

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d


class _Convolution(Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, anchor: Tensor, tape: Tape, module: Convolution
    ) -> Tensor:
        ctx.save_for_backward(inputs)
        ctx.tape, ctx.module = tape, module
        outputs: Tensor = torch.ops.aten.convolution(
            inputs, module.weight, module.bias, *_geometry(module), module.groups
        )
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        (inputs,) = ctx.saved_tensors
        tape: Tape = ctx.tape
        module: Convolution = ctx.module
        patches = tape.rows(_patches(inputs, module, gradients.shape[2:]))
        by_position = tape.rows(gradients.movedim(1, -1))
        if module.groups == 1:
            record_outer_product(tape, module.weight, (module.bias,), patches, by_position)
        else:
            _record_grouped(tape, module, patches, by_position)
        upstream = None
        if ctx.needs_input_grad[0]:
            upstream, _, _ = torch.ops.aten.convolution_backward(
                gradients,
                inputs,
                module.weight,
                None,
                *_geometry(module),
                module.groups,
                [True, False, False],
            )
        return upstream, None, None, None


def _geometry(module: Convolution) -> tuple[Any, ...]:
    """Stride, padding, dilation and transposed=False, as arguments of torch's kernels."""
    plain = (0,) * len(module.kernel_size)
    padding = plain if _pads_beforehand(module) else module.padding
    return module.stride, padding, module.dilation, False, plain


def _pads_beforehand(module: Convolution) -> bool:
    return isinstance(module.padding, str) or module.padding_mode != "zeros"


def _patches(inputs: Tensor, module: Convolution, positions: torch.Size) -> Tensor:
    """[batch, *positions, channels * kernel] the input patch of each output position."""
    if not _pads_beforehand(module):
        sides = [side for p in reversed(module.padding) for side in (p, p)]
        inputs = functional.pad(inputs, sides)  # type: ignore[arg-type]
    inputs = inputs.contiguous()
    batch, channels, *_ = inputs.shape
    steps = inputs.stride()[2:]
    windows = inputs.as_strided(
        (batch, *positions, channels, *module.kernel_size),
        (
            inputs.stride(0),
            *(step * stride for step, stride in zip(steps, module.stride, strict=True)),
            inputs.stride(1),
            *(step * apart for step, apart in zip(steps, module.dilation, strict=True)),
        ),
    )
    return windows.flatten(-1 - len(module.kernel_size))


def _record_grouped(tape: Tape, module: Convolution, a: Tensor, b: Tensor) -> None:
    """Materialise the gradients of the blocks, which are small."""
    weight, bias = module.weight, module.bias
    if weight.requires_grad:
        dtype = norm_dtype(b)
        a = torch.stack(a.to(dtype).chunk(module.groups, 2), 1)
        blocks = torch.stack(b.to(dtype).chunk(module.groups, 2), 1)
        formed = blocks.transpose(2, 3) @ a
        shape = (tape.grouping.examples, *weight.shape)
        tape.add((weight,), Instantiated(tape.grouping.sums(formed.reshape(shape))))
    if bias is not None and bias.requires_grad:
        tape.add((bias,), Instantiated(tape.grouping.sums(b.sum(1, dtype=norm_dtype(b)))))


def convolution_rule(module: Convolution, tape: Tape, input: Tensor) -> Tensor:
    inputs = tape.batched(input)
    if _pads_beforehand(module):
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        inputs = functional.pad(inputs, module._reversed_padding_repeated_twice, mode=mode)
    outputs: Tensor = apply(_Convolution, inputs, tape.anchor, tape, module)
    return outputs


for kind in (nn.Conv1d, nn.Conv2d, nn.Conv3d):
    rule_for(kind)(convolution_rule)
