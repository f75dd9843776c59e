"""The elementwise part of an LSTM step: compiled, or by torch in ten passes over memory.

Tensors are time-major: [steps, sequences, 4 size] `gates` (i, f, g, o), [steps, sequences, size]
`squashed`, and one more state than steps in `hidden` and `cells`.
"""

import ctypes
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from sottovoce import kernels
from sottovoce.kernels import FailedCheck
from sottovoce.training.kernel import readable, threads_for

SOURCE = Path(__file__).parent / "lstm.c"
# The cost per number of the state, in multiplications of a matrix product.
_PRODUCTS_OF_A_NUMBER = 64

_address, _size = ctypes.c_void_p, ctypes.c_size_t

aten = torch.ops.aten

Forward = Callable[[int, int, int], None]
"""Runs a step, given its time and the indices of the states before and after it."""
Backward = Callable[[int, int, Tensor, Tensor], None]
"""Runs a step backwards, given the state before it and the gradients of h and c, in place."""


def forward_steps(gates: Tensor, hidden: Tensor, cells: Tensor, squashed: Tensor) -> Forward:
    """Steps that apply the gate activations and compute the states."""
    kernel = _kernel_for(gates, hidden, cells, squashed)
    make = forward_by_torch if kernel is None else kernel.forward
    return make(gates, hidden, cells, squashed)


def backward_steps(
    gates: Tensor, cells: Tensor, squashed: Tensor, outer: Tensor, out: Tensor
) -> Backward:
    """Steps that fill `out` with the gradients of the gates before activation.

    `outer` [steps, sequences, size] holds the gradients of the outputs.
    """
    kernel = _kernel_for(gates, cells, squashed, out) if readable(outer) else None
    if kernel is None:
        return backward_by_torch(gates, cells, squashed, outer, out)
    return kernel.backward(gates, cells, squashed, outer, out)


def forward_by_torch(gates: Tensor, hidden: Tensor, cells: Tensor, squashed: Tensor) -> Forward:
    size = hidden.shape[-1]

    def step(t: int, before: int, after: int) -> None:
        gate = gates[t]
        gate[:, : 2 * size].sigmoid_()
        gate[:, 2 * size : 3 * size].tanh_()
        gate[:, 3 * size :].sigmoid_()
        i, f, g, o = gate.chunk(4, 1)
        torch.mul(f, cells[before], out=cells[after]).addcmul_(i, g)
        torch.tanh(cells[after], out=squashed[t])
        torch.mul(o, squashed[t], out=hidden[after])

    return step


def backward_by_torch(
    gates: Tensor, cells: Tensor, squashed: Tensor, outer: Tensor, out: Tensor
) -> Backward:
    def step(t: int, before: int, dh: Tensor, dc: Tensor) -> None:
        i, f, g, o = gates[t].chunk(4, 1)
        di, df, dg, do = out[t].chunk(4, 1)
        dh += outer[t]
        dc += aten.tanh_backward(dh * o, squashed[t])
        aten.sigmoid_backward.grad_input(dh * squashed[t], o, grad_input=do)
        aten.sigmoid_backward.grad_input(dc * g, i, grad_input=di)
        aten.sigmoid_backward.grad_input(dc * cells[before], f, grad_input=df)
        aten.tanh_backward.grad_input(dc * i, g, grad_input=dg)
        dc *= f

    return step


class Kernel:
    """A compiled library that passed its self-tests. Its steps do not keep their tensors alive."""

    def __init__(self, path: Path) -> None:
        self._forward, self._backward = kernels.functions(
            path,
            "sottovoce_lstm_supported",
            "sottovoce_lstm_forward",
            "sottovoce_lstm_backward",
            needs="AVX2 or FMA",
        )
        self._forward.argtypes = [_address] * 5 + [_size] * 3
        self._backward.argtypes = [_address] * 7 + [_size] * 4
        self._check()

    def forward(self, gates: Tensor, hidden: Tensor, cells: Tensor, squashed: Tensor) -> Forward:
        _, rows, size = hidden.shape
        state = rows * size * hidden.element_size()
        # Use addresses: creating views would take longer than the step itself.
        g, h, c, s = (x.data_ptr() for x in (gates, hidden, cells, squashed))
        threads = threads_for(rows * size * _PRODUCTS_OF_A_NUMBER)

        def step(t: int, before: int, after: int) -> None:
            self._forward(
                g + t * 4 * state, c + before * state, c + after * state, s + t * state,
                h + after * state, rows, size, threads,
            )  # fmt: skip

        return step

    def backward(
        self, gates: Tensor, cells: Tensor, squashed: Tensor, outer: Tensor, out: Tensor
    ) -> Backward:
        if outer.stride(2) != 1:
            outer = outer.contiguous()
        _, rows, size = squashed.shape
        state = rows * size * gates.element_size()
        g, c, s, to = (x.data_ptr() for x in (gates, cells, squashed, out))
        between_steps, between_rows = outer.stride(0) * outer.element_size(), outer.stride(1)
        threads = threads_for(rows * size * _PRODUCTS_OF_A_NUMBER)

        def step(t: int, before: int, dh: Tensor, dc: Tensor) -> None:
            self._backward(
                g + t * 4 * state, c + before * state, s + t * state,
                outer.data_ptr() + t * between_steps, dh.data_ptr(), dc.data_ptr(),
                to + t * 4 * state, rows, size, between_rows, threads,
            )  # fmt: skip

        return step

    def _check(self) -> None:
        found = _two_steps(self.forward, self.backward)
        expected = _two_steps(forward_by_torch, backward_by_torch)
        for name, right in expected.items():
            closed = torch.equal(found[name] == 0, right == 0)
            if not (closed and torch.allclose(found[name], right, rtol=1e-5, atol=1e-6)):
                raise FailedCheck(f"its steps compute wrong {name}")


def _two_steps(
    make_forward: Callable[..., Forward], make_backward: Callable[..., Backward]
) -> dict[str, Tensor]:
    """Test data: an odd size, closed gates, and output memory with wrong values."""
    steps, rows, size = 2, 3, 11
    gates = 4 * torch.arange(1.0, 1 + steps * rows * 4 * size).sin().view(steps, rows, 4 * size)
    gates[:, 0] = gates[:, 0].sign() * math.inf
    cells = torch.linspace(-1.0, 2.0, (steps + 1) * rows * size).view(steps + 1, rows, size)
    outer = torch.linspace(2.0, -1.0, steps * rows * 2 * size).view(steps, rows, 2 * size)
    dh, dc = cells[1].clone(), cells[2].clone()
    hidden, squashed, out = (torch.full_like(x, math.nan) for x in (cells, cells[1:], gates))
    hidden[0] = 0.0
    forward = make_forward(gates, hidden, cells, squashed)
    backward = make_backward(gates, cells, squashed, outer[:, :, :size], out)
    for t in range(steps):
        forward(t, t, t + 1)
        backward(t, t, dh, dc)
    states = {"gates": gates, "states": hidden, "cells": cells, "squashed cells": squashed}
    return {**states, "gradients": out, "gradients of states": dh, "gradients of cells": dc}


@cache
def load() -> Kernel | None:
    """The kernel built for this installation, if it can be used."""
    return kernels.load(SOURCE, Kernel)


def _kernel_for(*tensors: Tensor) -> Kernel | None:
    return load() if readable(*tensors) and all(x.is_contiguous() for x in tensors) else None
