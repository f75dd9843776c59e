"""The compiled kernel against published vectors, another AES and a plain Box-Muller transform.

Its distribution is tested in tests/statistical.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.compiling import assert_left_alone, assert_refused
from tests.privacy.noise.compiled import compiled

from sottovoce.privacy.noise import NoiseSource, gaussian, gaussian_into, kernel
from sottovoce.privacy.noise.kernel import Kernel
from sottovoce.privacy.noise.source import _hash

KEY = bytes(range(32))
# The largest relative error that float32 arithmetic makes: `gaussian.c` promises it.
PRECISION = 3.7e-7
EVERYTHING = 2**32 - 1


def key_stream(blocks: int, key: bytes = KEY) -> bytes:
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(16 * blocks))


def plain_values(words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """The transform by its definition, in float64: 16 values of every 24 words."""
    upper, finer, turned = np.moveaxis(words.astype(np.int64).reshape(-1, 3, 8), 1, 0)
    # u and 1 - u, both multiples of 2**-55 and both exact next to 0.
    numerator = (upper >> 8 << 31) + (finer >> 1 | 1)
    u, rest = numerator * 2.0**-55, (2**55 - numerator) * 2.0**-55
    r = np.sqrt(-2 * np.where(u < 0.5, np.log(u), np.log1p(-np.minimum(rest, 0.5))))
    # An angle of less than an eighth of a circle; a bit for the side, a bit for the axis.
    turns = ((turned % 2**30 + 2**29) % 2**30 - 2**29 + 0.5) * 2.0**-32
    x, y = np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)
    x = np.where(turned >> 30 & 1, -x, x)
    x, y = np.where(turned >> 31, [y, x], [x, y])
    return np.stack([r * x, r * y], axis=1).reshape(-1)


def plain_noise(sizes: list[int], key: bytes) -> Iterator[NDArray[np.float64]]:
    """The noise of one call: a counter that runs through all arrays, sixteen blocks at a time."""
    block = 0
    for n in sizes:
        used = -(-n // 16) * 6
        stream = key_stream(block + used, key)[16 * block :]
        yield plain_values(np.frombuffer(stream, np.uint32))[:n]
        block += -(-used // 16) * 16


def largest_error(values: NDArray[np.float32], expected: NDArray[np.float64]) -> float:
    """The largest relative difference; 0 for arrays without elements."""
    assert values.shape == expected.shape
    return float(np.abs(values / expected - 1).max(initial=0))


@pytest.mark.parametrize("vaes", [True, False])
def test_published_vectors(vaes: bool) -> None:
    encrypted = compiled().words(1, KEY, bytes.fromhex("00112233445566778899aabbccddeeff"), vaes)
    assert encrypted.hex() == "8ea2b7ca516745bfeafc49904b496089"  # FIPS 197, C.3

    # NIST SP 800-38A, F.5.5: CTR-AES256, four blocks.
    key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
    first = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
    message = (
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    )
    secret = (
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
        "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
    )
    stream = compiled().words(4, bytes.fromhex(key), bytes.fromhex(first), vaes)
    assert int(message, 16) ^ int.from_bytes(stream, "big") == int(secret, 16)


@given(key=st.binary(min_size=32, max_size=32), blocks=st.integers(0, 100), vaes=st.booleans())
def test_the_words_are_aes_in_counter_mode(key: bytes, blocks: int, vaes: bool) -> None:
    assert compiled().words(blocks, key, vaes=vaes) == key_stream(blocks, key)


def test_a_long_stream_never_repeats_a_block() -> None:
    blocks = 100_000
    stream = compiled().words(blocks, KEY)
    assert stream == compiled().words(blocks, KEY, vaes=False) == key_stream(blocks)
    assert len({stream[i : i + 16] for i in range(0, len(stream), 16)}) == blocks


def test_values_against_a_plain_transform() -> None:
    words = np.frombuffer(key_stream(300_000), np.uint32)
    assert largest_error(compiled().values(words), plain_values(words)) < PRECISION


EXTREMES = [0, 1, 2, 255, 256, 511, 2**24, 2**30 - 1, 2**30, 2**31 - 1, 2**31, 3 << 30]


def test_values_of_extreme_words() -> None:
    chosen = np.array([*EXTREMES, *(EVERYTHING - word for word in EXTREMES)])
    grid = np.stack(np.meshgrid(chosen, chosen, chosen), -1).reshape(-1, 8, 3)
    words = np.moveaxis(grid, 2, 1).astype(np.uint32)
    values = compiled().values(words)
    assert largest_error(values, plain_values(words)) < PRECISION
    assert np.isfinite(values).all()
    assert values.all()
    assert values.max() == pytest.approx(np.sqrt(2 * 55 * np.log(2)), rel=1e-6)


sizes = st.lists(st.sampled_from([0, 1, 7, 15, 16, 17, 31, 32, 33, 500, 511, 512, 513, 1100]))


@given(sizes=sizes, key=st.binary(min_size=32, max_size=32), std=st.floats(1e-3, 1e3))
def test_arrays_of_any_length(sizes: list[int], key: bytes, std: float) -> None:
    """Each array continues the stream of the previous one, so no part is used twice."""
    stds = [std * (i + 1) for i in range(len(sizes))]
    outs = [np.zeros(n, np.float32) for n in sizes]
    compiled().add(outs, stds, key)
    for out, deviation, expected in zip(outs, stds, plain_noise(sizes, key), strict=True):
        # The deviation itself is rounded to a float32.
        assert largest_error(out, np.float32(deviation) * expected) < PRECISION + 2**-23


@pytest.mark.parametrize("n", [1, 16, 1000])
def test_filling_overwrites_and_adding_adds(n: int) -> None:
    noise = np.full(n, np.nan, np.float32)
    compiled().fill(noise, 2.0, KEY)
    total = np.arange(n, dtype=np.float32)
    compiled().add([total], [2.0], KEY)
    assert total == pytest.approx(noise.astype(float) + np.arange(n), rel=1e-6)
    assert largest_error(noise, 2 * next(plain_noise([n], KEY))) < PRECISION


@pytest.mark.parametrize("offset", range(9))
@pytest.mark.parametrize("n", [0, 5, 16, 77])
def test_any_address_will_do_and_nothing_beside_is_touched(offset: int, n: int) -> None:
    octets = np.full(4 * n + 200, 7, np.uint8)
    out = octets[offset + 64 : offset + 64 + 4 * n].view(np.float32)
    compiled().fill(out, 1.0, KEY)
    assert largest_error(out, next(plain_noise([n], KEY))) < PRECISION
    assert (octets[: offset + 64] == 7).all()
    assert (octets[offset + 64 + 4 * n :] == 7).all()


def test_what_the_kernel_refuses() -> None:
    read_only = np.zeros(4, np.float32)
    read_only.flags.writeable = False
    strided = np.zeros((4, 4), np.float32)[:, 1]
    wrong: list[NDArray[Any]] = [np.zeros(4), np.zeros(4, np.int32), strided, read_only]
    for out in wrong:
        with pytest.raises(TypeError, match="contiguous float32"):
            compiled().add([out], [1.0], KEY)
        assert not out.any()
    with pytest.raises(TypeError, match="expected 32 bytes, got 16"):
        compiled().fill(np.zeros(4, np.float32), 1.0, KEY[:16])


# ---- Keys ----------------------------------------------------------------------------------------


def test_no_key_is_given_twice() -> None:
    source = NoiseSource.seeded(1)
    with ThreadPoolExecutor(4) as pool:
        keys = list(pool.map(lambda _: source.fresh_key(), range(1000)))
    child = source.derive("1")
    keys += [child.fresh_key(), child._root, source._root, NoiseSource.seeded(2).fresh_key()]
    keys.append(_hash(source._root, b"stream"))
    assert len(set(keys)) == len(keys)
    again = NoiseSource.seeded(1)
    again.words(100)
    assert again.fresh_key() in keys


def _send_noise(source: NoiseSource, end: Connection) -> None:
    out = np.empty(100, np.float32)
    compiled().fill(out, 1.0, source.fresh_key())
    end.send(out.tolist())


# Newer Pythons warn of forking beside the threads that numpy's libraries keep.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_draws_other_noise() -> None:
    compiled()
    source = NoiseSource()
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    for _ in range(2):
        child = context.Process(target=_send_noise, args=(source, sender))
        child.start()
        child.join(timeout=20)
        assert child.exitcode == 0
    _send_noise(source, sender)
    drawn = [set(receiver.recv()) for _ in range(3)]
    assert len(set.union(*drawn)) == pytest.approx(300, abs=2)


# ---- When the kernel is used ---------------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    built = compiled()
    monkeypatch.setattr(kernel, "load", lambda: built)
    return built


def test_an_unseeded_source_draws_by_the_kernel(
    installed: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = NoiseSource()
    monkeypatch.setattr(source, "fresh_key", lambda: KEY)
    out = np.empty((10, 7), np.float32)
    gaussian_into(out, 3.0, source)
    expected = np.empty(70, np.float32)
    installed.fill(expected, 3.0, KEY)
    assert (out.reshape(-1) == expected).all()
    # float64 does not use the kernel: the stream of the source continues.
    assert (gaussian(9, 1.0, source) != gaussian(9, 1.0, source)).all()


@pytest.mark.usefixtures("installed")
def test_two_calls_have_nothing_in_common() -> None:
    source = NoiseSource()
    one, other = (gaussian(1000, 1.0, source, np.float32) for _ in range(2))
    assert np.intersect1d(one, other).size < 10


def test_a_seed_means_the_same_noise_with_and_without_a_kernel(
    installed: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_kernel = gaussian(1000, 1.0, NoiseSource.seeded(1), np.float32)
    monkeypatch.setattr(kernel, "load", lambda: None)
    assert (with_kernel == gaussian(1000, 1.0, NoiseSource.seeded(1), np.float32)).all()


def test_without_a_kernel_numpy_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "load", lambda: None)
    assert not kernel.available()
    assert gaussian(10_000, 2.0, NoiseSource(), np.float32).std() == pytest.approx(2.0, rel=0.1)


# ---- Loading and checking ------------------------------------------------------------------------


def test_a_library_for_another_machine_is_left_alone(tmp_path: Path) -> None:
    assert_left_alone(kernel, tmp_path)


DEFECTS = {
    "a round less": ("#define ROUNDS 14", "#define ROUNDS 13"),
    "a counter at rest": ("_mm_set_epi64x(0, 1)", "_mm_set_epi64x(0, 0)"),
    "a counter at half speed": ("_mm256_set_epi64x(0, 2, 0, 2)", "_mm256_set_epi64x(0, 1, 0, 1)"),
    "a coefficient": ("3.3333331174e-1f", "3.3363331174e-1f"),
    "a scale": ("__m256 scale = constant(std)", "__m256 scale = constant(0.7f * std)"),
    "adds nothing": ("whole(accumulate ? -1 : 0)", "whole(0)"),
    "always one sign": ("_mm256_slli_epi32(word, 1), whole(INT32_MIN)", "word, whole(0)"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_wrong_library_is_refused(defect: str, tmp_path: Path) -> None:
    compiled()
    assert_refused(kernel, DEFECTS[defect], tmp_path)
