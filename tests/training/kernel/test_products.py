"""The compiled products against torch, and the rejection of wrong kernels."""

from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import assert_left_alone, assert_refused, compiled_or_skip
from torch import Tensor, nn

from sottovoce.training import kernel
from sottovoce.training.clipping.bookkeeping import BookKeeper
from sottovoce.training.kernel import products
from sottovoce.training.kernel.products import (
    FEWEST_ROWS,
    SOURCE,
    Kernel,
    gram_kernel_for,
    kernel_for,
)

groups = st.integers(0, 5)
rows = st.integers(FEWEST_ROWS, 21)
widths = st.integers(0, 40)
seeds = st.integers(0, 2**32 - 1)


@cache
def compiled() -> Kernel:
    return compiled_or_skip(SOURCE, Kernel)


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def within(guard: float, *shape: int) -> tuple[Tensor, Tensor]:
    """A tensor with guard values around it, and the whole block."""
    block = torch.full((torch.Size(shape).numel() + 32,), guard)
    return block[16:-16].view(shape), block


@given(groups, rows, widths, seeds)
def test_inner_products(groups: int, rows: int, width: int, seed: int) -> None:
    x = drawn(seed, groups, rows, width)
    found = compiled().grams(x)
    exact = torch.bmm(x.double(), x.double().transpose(1, 2))
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)
    assert torch.equal(found, found.transpose(1, 2))


@given(groups, rows, widths, seeds, st.permutations([0, 1]))
def test_inner_products_of_rows_that_lie_apart(
    groups: int, rows: int, width: int, seed: int, order: list[int]
) -> None:
    """As in a recurrent layer, where time comes before the example, and in a part of a tensor."""
    whole = drawn(seed, *(((groups, rows)[i]) for i in order), width + 3).permute(*order, 2)
    x = whole[:, :, 1 : width + 1]
    torch.testing.assert_close(compiled().grams(x), compiled().grams(x.contiguous()))


@given(groups, st.integers(1, 21), seeds, st.integers(0, 2))
def test_sums_over_pairs(groups: int, rows: int, seed: int, biases: int) -> None:
    x, y = drawn(seed, groups, rows, 7), drawn(seed + 1, groups, rows, 7)
    a, b = torch.bmm(x, x.transpose(1, 2)), torch.bmm(y, y.transpose(1, 2))
    squares, sizes = compiled().pair_sums(a, b, biases)
    pairs = (a.double() + biases) * b.double()
    roots = pairs.diagonal(dim1=1, dim2=2).sqrt().sum(1)
    torch.testing.assert_close(squares.double(), pairs.sum((1, 2)), rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(sizes.double(), roots, rtol=1e-5, atol=1e-5)


def test_a_long_sum_over_pairs_is_not_rounded_away() -> None:
    """Terms of one sign and a million of them: added up in float32, thousandths would be lost."""
    ones = torch.full((1, 1024, 1024), 1.1)
    squares, _ = compiled().pair_sums(ones, ones, 0.0)
    term = float(torch.tensor(1.1)) ** 2
    assert squares.item() == pytest.approx(1024**2 * term, rel=2e-7)


@given(groups, st.integers(0, 9), widths, seeds)
def test_sums_of_layer_norms(groups: int, rows: int, width: int, seed: int) -> None:
    x, b = drawn(seed, groups, rows, width), drawn(seed + 1, groups, rows, width)
    mean, scale = drawn(seed + 2, groups, rows, 1), drawn(seed + 3, groups, rows, 1)
    weight, bias = compiled().norm_sums(x, b, mean, scale)
    expected = ((x.double() - mean) * scale * b).sum(1)
    torch.testing.assert_close(weight.double(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(bias.double(), b.double().sum(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [2, 3, 100])
def test_threads_give_the_same_numbers(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, b, each = drawn(1, 70, 9, 33), drawn(2, 70, 9, 33), drawn(3, 70, 9, 1)
    grams = compiled().grams(x)
    alone = grams, *compiled().pair_sums(grams, grams, 1.0), *compiled().norm_sums(x, b, each, each)
    monkeypatch.setattr(products, "threads_for", lambda work: threads)
    shared = (
        compiled().grams(x),
        *compiled().pair_sums(grams, grams, 1.0),
        *compiled().norm_sums(x, b, each, each),
    )
    assert all(torch.equal(one, other) for one, other in zip(alone, shared, strict=True))


def test_threads_only_where_there_is_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert [kernel.threads_for(work) for work in (0, 2**23, 2**25, 2**40)] == [1, 1, 4, 8]


@pytest.mark.parametrize("rows", [4, 5, 7, 12, 13])
def test_nothing_beside_is_touched(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = drawn(rows, 2, rows, 11)
    guarded = [within(7.0, 2, rows, rows), within(7.0, 2), within(7.0, 2)]
    guarded += [within(7.0, 2, 11), within(7.0, 2, 11)]
    waiting = iter(guarded)
    monkeypatch.setattr(Tensor, "new_empty", lambda self, *shape: next(waiting)[0])
    grams = compiled().grams(x)
    compiled().pair_sums(grams, grams, 1.0)
    compiled().norm_sums(x, x, x[:, :, :1].contiguous(), x[:, :, :1].contiguous())
    for inner, block in guarded:
        assert (block[:16] == 7).all()
        assert (block[-16:] == 7).all()
        assert not (inner == 7).any()


def test_a_number_that_is_not_finite_stays_in_its_group() -> None:
    x = drawn(1, 3, 6, 9)
    x[1, 2, 3] = torch.nan
    grams = compiled().grams(x)
    squares, sizes = compiled().pair_sums(grams, grams, 1.0)
    each = torch.ones(3, 6, 1)
    weight, bias = compiled().norm_sums(x, x, each, each)
    for found in (squares, sizes, weight.sum(1), bias.sum(1)):
        assert found.isfinite().tolist() == [True, False, True]


def test_what_the_kernel_cannot_read_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "load", compiled)
    x = torch.zeros(2, 6, 4)
    assert kernel_for(x) is gram_kernel_for(x) is compiled()
    for other in (x.double(), x.bfloat16(), x.to("meta"), x._neg_view(), x.transpose(1, 2)):
        assert kernel_for(other) is kernel_for(x, other) is gram_kernel_for(other) is None
    repeated = x[:1].expand(2, 6, 4)
    assert kernel_for(repeated) is None
    assert gram_kernel_for(repeated) is compiled()
    for other in (x[:, :3], x.transpose(1, 2)):
        with pytest.raises(TypeError, match="4 or more contiguous rows"):
            compiled().grams(other)


def norms(monkeypatch: pytest.MonkeyPatch, used: Kernel | None) -> tuple[Tensor, list[Tensor]]:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(40, 30), nn.LayerNorm(30), nn.Linear(30, 40))
    x = torch.randn(8, 7, 40)
    monkeypatch.setattr(products, "load", lambda: used)
    keeper = BookKeeper(model)
    with keeper.record():
        keeper.backward(model(x).square().mean((1, 2)))
    found = keeper.squared_norms_by_layer()
    keeper.accumulate(torch.linspace(0.1, 1.0, 8))
    return found, [p.grad for p in model.parameters() if p.grad is not None]


def test_a_model_has_the_same_norms_and_gradients_without(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.testing.assert_close(norms(monkeypatch, compiled()), norms(monkeypatch, None))


def test_a_library_for_another_machine_is_left_alone(tmp_path: Path) -> None:
    assert_left_alone(products, tmp_path)


DEFECTS = {
    "a lane is lost": ("_mm256_extractf128_ps(pairs, 1)", "_mm_setzero_ps()"),
    "the rest of a row": ("for (; k < d; k++) {", "for (; k + 1 < d; k++) {"),
    "rows side by side": ("b + j * row + k", "b + j * d + k"),
    "the last rows": ("top + TALL <= n ? top : n - TALL", "top + TALL <= n ? top : n - TALL - 1"),
    "one half": ("out[(s + j) * n + r + i] = square[i][j]", "(void)square[i][j]"),
    "no bias": ("__m256 c = _mm256_set1_ps(all->c)", "__m256 c = _mm256_setzero_ps()"),
    "the rest of the pairs": ("square += (a[i] + all->c) * b[i]", "square += 0"),
    "squares for roots": ("sqrtf((a[r] + all->c) * b[r])", "(a[r] + all->c) * b[r]"),
    "the mean": ("(x[k] - mean)", "x[k]"),
    "the deviation": ("* scale * b[k]", "* b[k]"),
    "no shift": ("bias[k] += b[k]", "bias[k] = b[k]"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_wrong_library_is_refused(defect: str, tmp_path: Path) -> None:
    compiled()
    assert_refused(products, DEFECTS[defect], tmp_path)
