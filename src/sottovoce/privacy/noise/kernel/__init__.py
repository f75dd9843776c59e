"""The compiled noise kernel: an optional part that draws Gaussian float32 noise five times faster.

`gaussian.c` says what it computes and how far that is from a normal variable. Here it is loaded,
if it was built and the processor can run it, and checked: a library that does not encrypt the
example of FIPS 197, does not count, or does not give the values it should, is not used.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from sottovoce import kernels
from sottovoce.kernels import FailedCheck
from sottovoce.privacy.noise.source import KEY_BYTES, NoiseSource

SOURCE = Path(__file__).parent / "gaussian.c"

BLOCK_BYTES = 16
BATCH_VALUES, BATCH_BYTES = 16, 96  # the second stage makes so many values of so many bytes

# FIPS 197, appendix C.3; and values that the same key gives, by their place in the array.
KEY = bytes(range(KEY_BYTES))
PLAIN = bytes.fromhex("00112233445566778899aabbccddeeff")
ENCRYPTED = bytes.fromhex("8ea2b7ca516745bfeafc49904b496089")
NOISE = {0: -0.062790045, 17: -0.489294171, 529: 0.534332129}


class Kernel:
    """A compiled library that passed its checks. Every call takes a key that is used once."""

    def __init__(self, path: Path) -> None:
        self._noise, self._words, self._values = kernels.functions(
            path,
            "sottovoce_noise_supported",
            "sottovoce_noise",
            "sottovoce_noise_words",
            "sottovoce_noise_values",
            needs="AES, AVX2 or FMA",
        )
        self._check()

    def fill(self, out: NDArray[np.float32], std: float, key: bytes) -> None:
        """Overwrite a contiguous array with normal variables of this standard deviation."""
        self._call([out], [std], key, accumulate=False)

    def add(self, outs: Sequence[NDArray[np.float32]], stds: Sequence[float], key: bytes) -> None:
        """Add normal variables to contiguous arrays, each with its own standard deviation."""
        self._call(outs, stds, key, accumulate=True)

    def _call(
        self,
        outs: Sequence[NDArray[np.float32]],
        stds: Sequence[float],
        key: bytes,
        accumulate: bool,
    ) -> None:
        for out in outs:
            if out.dtype != np.float32 or not (out.flags.c_contiguous and out.flags.writeable):
                raise TypeError("the kernel writes to contiguous float32 arrays only")
        n = len(outs)
        self._noise(
            (ctypes.c_void_p * n)(*[out.ctypes.data for out in outs]),
            (ctypes.c_size_t * n)(*[out.size for out in outs]),
            (ctypes.c_float * n)(*stds),
            ctypes.c_size_t(n),
            ctypes.c_int(accumulate),
            _exactly(KEY_BYTES, key),
        )

    def words(
        self, blocks: int, key: bytes, first: bytes = bytes(BLOCK_BYTES), vaes: bool = True
    ) -> bytes:
        """The first stage alone: the key stream from the block `first` on."""
        out = ctypes.create_string_buffer(blocks * BLOCK_BYTES)
        self._words(
            out,
            ctypes.c_size_t(blocks),
            ctypes.c_int(not vaes),
            _exactly(KEY_BYTES, key),
            _exactly(BLOCK_BYTES, first),
        )
        return out.raw

    def values(self, words: NDArray[np.uint32]) -> NDArray[np.float32]:
        """The second stage alone: the standard normal variables made out of these words."""
        octets = words.tobytes()
        batches = len(octets) // BATCH_BYTES
        out = np.empty(batches * BATCH_VALUES, np.float32)
        self._values(ctypes.c_void_p(out.ctypes.data), octets, ctypes.c_size_t(batches))
        return out

    def _check(self) -> None:
        blocks = 40
        other_aes = Cipher(algorithms.AES(KEY), modes.CTR(PLAIN)).encryptor()
        counted = other_aes.update(bytes(BLOCK_BYTES * blocks))
        for vaes in (True, False):
            words = self.words(blocks, KEY, PLAIN, vaes)
            if words[:BLOCK_BYTES] != ENCRYPTED or words != counted:
                raise FailedCheck("it does not encrypt and count as AES-256-CTR does")
        drawn = np.full(max(NOISE) + 1, np.nan, np.float32)
        self.fill(drawn, 1.0, KEY)
        if not np.allclose(drawn[list(NOISE)], list(NOISE.values()), rtol=1e-6, atol=0):
            raise FailedCheck("it does not give the noise it should")
        total = drawn.copy()
        self.add([total], [3.0], KEY)
        if not np.allclose(total, 4 * drawn, rtol=1e-6, atol=0):
            raise FailedCheck("it does not add noise as it should")


def _exactly(size: int, octets: bytes) -> bytes:
    if len(octets) != size:
        raise TypeError(f"expected {size} bytes, got {len(octets)}")
    return octets


@cache
def load() -> Kernel | None:
    """The kernel that was built for this installation, if it can be used."""
    return kernels.load(SOURCE, Kernel)


def available() -> bool:
    """Is the compiled kernel used for float32 noise here?

    >>> available() in (True, False)
    True
    """
    return load() is not None


def kernel_for(dtype: np.dtype[Any], source: NoiseSource) -> Kernel | None:
    """The kernel, if it is the one to draw noise of this type from this source.

    A seeded source is for repeating something, so it never depends on whether there is a kernel.
    """
    return None if source.is_seeded or dtype != np.float32 else load()
