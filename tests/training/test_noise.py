"""Noise on all kinds of tensors: the right standard deviation, and no other memory is changed."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.privacy.noise.compiled import compiled
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource, kernel
from sottovoce.training import noise as module
from sottovoce.training.noise import TensorNoise

N = 60_000

# Ways to create a tensor of N elements.
KINDS: dict[str, Callable[[], Tensor]] = {
    "float32": lambda: torch.zeros(300, 200),
    "float64": lambda: torch.zeros(N, dtype=torch.float64),
    "bfloat16": lambda: torch.zeros(N, dtype=torch.bfloat16),
    "transposed": lambda: torch.zeros(300, 200).t(),
    "channels last": lambda: torch.zeros(3, 20, 20, 50).to(memory_format=torch.channels_last),
    "a slice": lambda: torch.zeros(300, 400)[:, ::2],
    "a slice of bfloat16": lambda: torch.zeros(300, 400, dtype=torch.bfloat16)[:, ::2],
    "a parameter": lambda: torch.nn.Parameter(torch.zeros(300, 200)),
}


@pytest.fixture(params=["kernel", "numpy"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> NoiseSource:
    """A source keyed by the operating system, with and without the compiled kernel."""
    chosen = compiled() if request.param == "kernel" else None
    monkeypatch.setattr(kernel, "load", lambda: chosen)
    return NoiseSource()


def deviation(tensor: Tensor) -> float:
    return math.sqrt(tensor.detach().double().square().mean().item())


def distinct(tensor: Tensor) -> float:
    """The share of values that are different and not zero."""
    values = np.unique(tensor.detach().numpy())
    return np.count_nonzero(values) / tensor.numel()


def is_right(tensor: Tensor, std: float) -> bool:
    """Within 2 %, seven standard errors at N elements."""
    return abs(deviation(tensor) / std - 1) < 0.02


@pytest.mark.parametrize("scratch", [1 << 18, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tensor(
    kind: str, scratch: int, source: NoiseSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SCRATCH", scratch)
    tensor = KINDS[kind]()
    assert tensor.numel() == N
    TensorNoise(source).add([tensor], 3.0)
    assert is_right(tensor, 3.0)
    # The twins: other standard deviations are detected.
    assert not is_right(tensor, 0.7 * 3.0)
    assert not is_right(tensor, 1.3 * 3.0)
    # No value is used twice. (bfloat16 has too few values to check this.)
    if tensor.dtype != torch.bfloat16:
        assert distinct(tensor) > 0.98


@pytest.mark.parametrize("shape", [(20, 3), (1, 60), (2, 3, 10), (60,)])
def test_a_scratch_of_a_few_values(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCRATCH", 7)
    tensors = [torch.zeros(*shape, 2)[..., 0] for _ in range(3)]
    TensorNoise(NoiseSource()).add(tensors, 1.0)
    assert distinct(torch.cat(tensors)) > 0.98


def test_the_elements_between_those_of_a_slice_stay() -> None:
    whole = torch.zeros(40, 40)
    TensorNoise(NoiseSource()).add([whole[1::2, ::3]], 1.0)
    assert whole[1::2, ::3].all()
    assert int((whole != 0).sum()) == whole[1::2, ::3].numel()


def test_many_tensors_of_many_kinds_at_once(source: NoiseSource) -> None:
    tensors = [make() for make in KINDS.values()] + [torch.zeros(n) for n in range(200)]
    stds = [0.5 + i % 7 for i in range(len(tensors))]
    TensorNoise(source).add(tensors, stds)
    for tensor, std in zip(tensors[: len(KINDS)], stds, strict=False):
        assert is_right(tensor, std)
    small = [t / s for t, s in zip(tensors[-200:], stds[-200:], strict=True)]
    assert deviation(torch.cat(small)) == pytest.approx(1, abs=7 / math.sqrt(2 * 19_900))
    assert distinct(torch.cat(small)) > 0.98


def test_tensors_are_independent(source: NoiseSource) -> None:
    tensors = [make() for make in KINDS.values()]
    TensorNoise(source).add(tensors, 1.0)
    rows = np.array([t.detach().double().reshape(-1).numpy() for t in tensors])
    assert np.abs(np.corrcoef(rows) - np.eye(len(rows))).max() < 7 / math.sqrt(N)


def test_noise_is_added_to_what_is_there(source: NoiseSource) -> None:
    for make in KINDS.values():
        tensor = make()
        with torch.no_grad():
            tensor += 64
        TensorNoise(source).add([tensor], 0.5)
        assert tensor.detach().double().mean().item() == pytest.approx(64, abs=0.02)


def test_a_bfloat16_is_rounded_once() -> None:
    """At 256 the step of a bfloat16 is 2: noise of 1 must still move a third of the elements."""
    tensor = torch.full((N,), 256, dtype=torch.bfloat16)
    TensorNoise(NoiseSource.seeded(1)).add([tensor], 1.0)
    exact = torch.full((N,), 256.0)
    TensorNoise(NoiseSource.seeded(1)).add([exact], 1.0)
    assert (tensor == exact.bfloat16()).all()


def test_a_seed_repeats() -> None:
    first, second = ([make() for make in KINDS.values()] for _ in range(2))
    for tensors in (first, second):
        TensorNoise(NoiseSource.seeded(1)).add(tensors, 1.0)
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


def test_empty_lists_empty_tensors_and_no_deviation(source: NoiseSource) -> None:
    TensorNoise(source).add([], 1.0)
    TensorNoise(source).add([torch.zeros(0), torch.zeros(3, 0)[:, ::2]], 1.0)
    ones = [torch.ones(5), torch.ones(5).bfloat16(), torch.ones(10)[::2]]
    TensorNoise(source).add(ones, 0.0)
    assert all((tensor == 1).all() for tensor in ones)
    scalar = torch.tensor(0.0)
    TensorNoise(source).add([scalar], 1)
    assert scalar != 0


@pytest.mark.parametrize("kind", KINDS)
def test_autograd_notices_that_a_value_it_needs_has_gone(kind: str) -> None:
    weight = KINDS[kind]().requires_grad_()
    loss = (weight**2).sum()
    TensorNoise(NoiseSource()).add([weight], 1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()  # type: ignore[no-untyped-call]
    assert weight.requires_grad


def test_tensors_made_in_inference_mode() -> None:
    with torch.inference_mode():
        tensors = [torch.zeros(10), torch.zeros(10).bfloat16()]
        TensorNoise(NoiseSource()).add(tensors, 1.0)
        assert all(tensor.all() for tensor in tensors)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.zeros(3, dtype=torch.float16), "got torch.float16 for tensor 1"),
        (torch.zeros(3, dtype=torch.int64), "got torch.int64 for tensor 1"),
        (torch.eye(3).to_sparse(), "Expected dense tensors, got torch.sparse_coo for tensor 1"),
        (torch.zeros(1).expand(3), "got an expanded tensor 1"),
    ],
)
def test_tensors_that_cannot_take_noise(tensor: Tensor, message: str) -> None:
    good = torch.zeros(3)
    with pytest.raises(InvalidInput, match=message):
        TensorNoise(NoiseSource()).add([good, tensor], 1.0)
    assert not good.any()


def test_deviations_that_do_not_fit() -> None:
    good = torch.zeros(3)
    with pytest.raises(InvalidInput, match="one std for each of 1 tensors, got 2"):
        TensorNoise(NoiseSource()).add([good], [1.0, 2.0])
    with pytest.raises(InvalidInput, match="Expected std >= 0, got -1"):
        TensorNoise(NoiseSource()).add([good, good.clone()], [1.0, -1.0])
    assert not good.any()
