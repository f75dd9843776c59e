"""The optional compiled noise kernel, which draws Gaussian float32 noise five times faster.

`gaussian.c` states what it computes and how far that is from a normal variable. This module loads
the library if it was built and the processor supports it, and tests it: a library that fails the
AES example of FIPS 197, the counter test or the known noise values is not used.
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
BATCH_VALUES, BATCH_BYTES = 16, 96  # the second stage makes 16 values from 96 bytes

# FIPS 197, appendix C.3; and noise values under the same key, by their index in the array.
KEY = bytes(range(KEY_BYTES))
PLAIN = bytes.fromhex("00112233445566778899aabbccddeeff")
ENCRYPTED = bytes.fromhex("8ea2b7ca516745bfeafc49904b496089")
NOISE = {0: -0.062790045, 17: -0.489294171, 529: 0.534332129}


class Kernel:
    """A compiled library that passed its self-tests. Every call takes a single-use key."""

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
        """The first stage alone: the key stream starting at block `first`."""
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
        """The second stage alone: the standard normal variables made from these words."""
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
                raise FailedCheck("it fails the AES-256-CTR self-test")
        drawn = np.full(max(NOISE) + 1, np.nan, np.float32)
        self.fill(drawn, 1.0, KEY)
        if not np.allclose(drawn[list(NOISE)], list(NOISE.values()), rtol=1e-6, atol=0):
            raise FailedCheck("it fails the noise self-test")
        total = drawn.copy()
        self.add([total], [3.0], KEY)
        if not np.allclose(total, 4 * drawn, rtol=1e-6, atol=0):
            raise FailedCheck("it fails the addition self-test")


def _exactly(size: int, octets: bytes) -> bytes:
    if len(octets) != size:
        raise TypeError(f"expected {size} bytes, got {len(octets)}")
    return octets


@cache
def load() -> Kernel | None:
    """The kernel built for this installation, if it can be used."""
    return kernels.load(SOURCE, Kernel)


def available() -> bool:
    """Whether the compiled kernel is used for float32 noise.

    >>> available() in (True, False)
    True
    """
    return load() is not None


def kernel_for(dtype: np.dtype[Any], source: NoiseSource) -> Kernel | None:
    """The kernel, if it draws noise of this type from this source.

    Seeded sources never use it, so that their noise does not depend on whether a kernel was built.
    """
    return None if source.is_seeded or dtype != np.float32 else load()
