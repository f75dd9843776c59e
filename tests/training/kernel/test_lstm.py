"""The compiled LSTM steps against torch, and the rejection of wrong kernels."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import assert_left_alone, assert_refused, compiled_or_skip
from torch import Tensor, nn

from sottovoce.training.clipping.bookkeeping import BookKeeper
from sottovoce.training.kernel import lstm
from sottovoce.training.kernel.lstm import (
    SOURCE,
    Kernel,
    backward_by_torch,
    backward_steps,
    forward_by_torch,
    forward_steps,
)

steps, sequences, sizes = st.integers(1, 3), st.integers(0, 4), st.integers(1, 20)
seeds = st.integers(0, 2**32 - 1)

# A unit in the last place of a float32 between 1/2 and 1.
ULP = 2.0**-24


@cache
def compiled() -> Kernel:
    return compiled_or_skip(SOURCE, Kernel)


def drawn(seed: int, *shape: int) -> Tensor:
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def forwards(make: Callable[..., lstm.Forward], gates: Tensor, start: Tensor) -> list[Tensor]:
    """Gates, hidden states, cells and squashed cells after all steps."""
    count, rows, width = gates.shape
    gates = gates.clone()
    hidden = start.new_full((count + 1, rows, width // 4), math.nan)
    cells, squashed = hidden.clone(), hidden[1:].clone()
    hidden[0], cells[0] = 0.0, start
    step = make(gates, hidden, cells, squashed)
    for t in range(count):
        step(t, t, t + 1)
    return [gates, hidden, cells, squashed]


def backwards(
    make: Callable[..., lstm.Backward], done: list[Tensor], outer: Tensor
) -> list[Tensor]:
    """The gradients of the gates, and what is left for the states before the first step."""
    gates, _, cells, squashed = done
    out = torch.full_like(gates, math.nan)
    dh, dc = outer[0].clone(), outer[-1].clone()
    step = make(gates, cells, squashed, outer, out)
    for t in reversed(range(len(gates))):
        step(t, t, dh, dc)
    return [out, dh, dc]


@given(steps, sequences, sizes, seeds)
def test_steps_are_those_of_torch(count: int, rows: int, size: int, seed: int) -> None:
    gates, start = drawn(seed, count, rows, 4 * size), drawn(seed + 1, rows, size)
    done = forwards(compiled().forward, gates, start)
    exact = forwards(forward_by_torch, gates.double(), start.double())
    for found, right in zip(done, exact, strict=True):
        torch.testing.assert_close(found.double(), right, rtol=1e-6, atol=1e-6)
    outer = drawn(seed + 2, count, rows, size)
    exact = [x.double() for x in done]
    for found, right in zip(
        backwards(compiled().backward, done, outer),
        backwards(backward_by_torch, exact, outer.double()),
        strict=True,
    ):
        torch.testing.assert_close(found.double(), right, rtol=1e-5, atol=1e-6)


@given(seeds, st.sampled_from(["a part", "time last", "all the same"]))
def test_what_comes_back_may_lie_anywhere(seed: int, kind: str) -> None:
    outer = {
        "a part": drawn(seed, 2, 3, 20)[:, :, 9:],
        "time last": drawn(seed, 3, 11, 2).permute(2, 0, 1),
        "all the same": drawn(seed, 1, 1, 1).expand(2, 3, 11),
    }[kind]
    done = forwards(compiled().forward, drawn(seed + 1, 2, 3, 44), drawn(seed + 2, 3, 11))
    kept = outer.clone()
    for found, right in zip(
        backwards(compiled().backward, done, outer),
        backwards(compiled().backward, done, outer.contiguous()),
        strict=True,
    ):
        assert torch.equal(found, right)
    assert torch.equal(outer, kept)


def activated(x: Tensor) -> tuple[Tensor, Tensor]:
    """sigmoid(x) and tanh(x) by the kernel."""
    gates = x.view(1, 1, -1).repeat(1, 1, 4)
    i, _, g, _ = forwards(compiled().forward, gates, torch.zeros(1, x.numel()))[0].chunk(4, -1)
    return i.flatten(), g.flatten()


def test_activations_are_right_to_a_few_units_in_the_last_place() -> None:
    x = torch.cat([torch.linspace(-20, 20, 400_001), torch.linspace(-0.7, 0.7, 400_001)])
    tiny = 10.0 ** torch.linspace(-30, 0, 100_000)
    x = torch.cat([x, tiny, -tiny, torch.linspace(-86, 100, 10_000)])
    sigmoid, tanh = activated(x)
    for found, exact in (sigmoid, x.double().sigmoid()), (tanh, x.double().tanh()):
        mantissa = torch.frexp(exact.abs()).exponent.double().exp2() * ULP
        assert float(((found.double() - exact).abs() / mantissa).max()) < 4


def test_gates_close_and_open_altogether() -> None:
    x = torch.tensor([-math.inf, -1e30, -88.0, 0.0, 88.0, 1e30, math.inf, math.nan])
    sigmoid, tanh = activated(x)
    assert sigmoid[:-1].tolist() == [0, 0, 0, 0.5, 1, 1, 1]
    assert tanh[:-1].tolist() == [-1, -1, -1, 0, 1, 1, 1]
    assert sigmoid[-1].isnan()
    assert tanh[-1].isnan()


def test_a_number_that_is_not_finite_stays_in_its_sequence() -> None:
    gates, outer = drawn(1, 2, 3, 44), drawn(2, 2, 3, 11)
    gates[0, 1, 5] = math.nan
    outer[1, 1, 3] = math.inf
    done = forwards(compiled().forward, gates, drawn(3, 3, 11))
    for found in (*done, *backwards(compiled().backward, done, outer)):
        assert found.select(-2, 0).isfinite().all()
        assert found.select(-2, 2).isfinite().all()


@pytest.mark.parametrize("size", [1, 7, 8, 13])
def test_nothing_beside_is_touched(size: int) -> None:
    """All tensors are in one block, with guard values between them that must not change."""
    shapes: list[tuple[int, ...]] = [(1, 2, 4 * size), (2, 2, size), (2, 2, size), (1, 2, size)]
    shapes += [(1, 2, 4 * size), (2, size), (2, size)]
    block = torch.full((sum(math.prod(shape) + 16 for shape in shapes),), 7.0)
    tensors, place = [], 16
    untouched = torch.ones_like(block, dtype=torch.bool)
    for shape in shapes:
        end = place + math.prod(shape)
        tensors.append(block[place:end].view(shape).fill_(0.5))
        untouched[place:end] = False
        place = end + 16
    gates, hidden, cells, squashed, out, dh, dc = tensors
    compiled().forward(gates, hidden, cells, squashed)(0, 0, 1)
    compiled().backward(gates, cells, squashed, drawn(1, 1, 2, size), out)(0, 0, dh, dc)
    assert (block[untouched] == 7).all()
    for changed in (gates, hidden[1], cells[1], squashed, out, dh, dc):
        assert not (changed == 0.5).any()


@pytest.mark.parametrize("threads", [2, 100])
def test_threads_give_the_same_numbers(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gates, start, outer = drawn(1, 2, 9, 44), drawn(2, 9, 11), drawn(3, 2, 9, 11)

    def everything() -> list[Tensor]:
        done = forwards(compiled().forward, gates, start)
        return [*done, *backwards(compiled().backward, done, outer)]

    alone = everything()
    monkeypatch.setattr(lstm, "threads_for", lambda work: threads)
    pairs = zip(alone, everything(), strict=True)
    assert all(torch.allclose(a, b, rtol=0, atol=0, equal_nan=True) for a, b in pairs)


def test_what_the_kernel_cannot_read_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lstm, "load", compiled)
    start, outer = drawn(2, 3, 11), drawn(3, 2, 3, 11)
    for gates in (drawn(1, 2, 3, 44).double(), drawn(1, 3, 2, 44).transpose(0, 1)):
        done = forwards(forward_steps, gates, start.to(gates.dtype))
        right = forwards(forward_by_torch, gates, start.to(gates.dtype))
        torch.testing.assert_close(done, right, equal_nan=True)
        torch.testing.assert_close(
            backwards(backward_steps, done, outer.to(gates.dtype)),
            backwards(backward_by_torch, done, outer.to(gates.dtype)),
        )


def outcome(monkeypatch: pytest.MonkeyPatch, used: Kernel | None) -> tuple[Tensor, list[Tensor]]:
    torch.manual_seed(5)
    model = nn.LSTM(9, 13, num_layers=2, bidirectional=True, batch_first=True)
    x = torch.randn(6, 5, 9)
    packed = nn.utils.rnn.pack_padded_sequence(
        x, torch.tensor([5, 1, 3, 5, 2, 4]), batch_first=True, enforce_sorted=False
    )
    monkeypatch.setattr(lstm, "load", lambda: used)
    keeper = BookKeeper(model)
    with keeper.record():
        outputs, _ = nn.utils.rnn.pad_packed_sequence(model(packed)[0], batch_first=True)
        keeper.backward(outputs.square().mean((1, 2)))
    found = keeper.squared_norms_by_layer()
    keeper.accumulate(torch.linspace(0.1, 1.0, 6))
    return found, [p.grad for p in model.parameters() if p.grad is not None]


def test_a_model_has_the_same_norms_and_gradients_without(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.testing.assert_close(outcome(monkeypatch, compiled()), outcome(monkeypatch, None))


def test_a_library_for_another_machine_is_left_alone(tmp_path: Path) -> None:
    assert_left_alone(lstm, tmp_path)


DEFECTS = {
    "a closed gate leaks": ("_CMP_NLT_UQ", "_CMP_TRUE_UQ"),
    "the sign of tanh": ("_mm256_or_ps(far, _mm256_and_ps(sign, x))", "far"),
    "a coefficient": ("constant(1.33314422036e-1f)", "constant(1.34e-1f)"),
    "the rest of a row": (
        "if (k < all->size) forward_lanes(all, row, k, all->size - k)", "(void)row",
    ),
    "the rest of a row, backwards": (
        "if (k < all->size) backward_lanes(all, row, k, all->size - k)", "(void)row",
    ),
    "no memory": ("_mm256_fmadd_ps(f, load(all->before + place, count), ", "_mm256_add_ps(f, "),
    "where outer lies": ("row * all->outer_row", "row * all->size"),
    "nothing comes back": ("load(all->dh + place, count), outer)", "outer, outer)"),
    "no gradient through tanh": ("_mm256_fnmadd_ps(squashed, squashed, one)", "one"),
    "the slope": ("_mm256_mul_ps(dh, squashed), slope(o)", "_mm256_mul_ps(dh, squashed), o"),
    "cells are not forgotten": ("_mm256_mul_ps(dc, f)", "dc"),
}  # fmt: skip


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_wrong_library_is_refused(defect: str, tmp_path: Path) -> None:
    compiled()
    assert_refused(lstm, DEFECTS[defect], tmp_path)
