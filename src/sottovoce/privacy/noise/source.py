"""Cryptographically secure random bits, the source of all randomness in this package.

The state of a statistical generator (PCG64, Mersenne Twister) can be recovered from enough of its
output, and noise that can be recomputed can be subtracted. A `NoiseSource` is AES-256 in counter
mode, keyed by the operating system: distinguishing its output from random bits means breaking AES.
Seeds are for tests only; a seeded source is marked by its `stamp`.
"""

import hashlib
import operator
import os
import threading
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import SEEDED_STAMP

KEY_BYTES = 32
# In counter mode the key stream is the encryption of zeros. Pieces of this size fit the cache and
# are long enough to make the overhead of a call negligible.
ZEROS = memoryview(bytes(1 << 18))
# Values per block of a sampler: intermediate arrays fit the cache, and the overhead of numpy calls
# is negligible.
BLOCK = 1 << 16


class NoiseSource:
    """A stream of random bits that never repeats, not even in a forked process.

    `NoiseSource()` takes a fresh key from the operating system. Threads may share a source.
    Asking for 10 words and then for 20 gives the same words as asking for 30.

    >>> source = NoiseSource()
    >>> source.words(3).dtype, source.is_seeded, source.stamp
    (dtype('uint64'), False, None)
    >>> once, again = NoiseSource.seeded(7), NoiseSource.seeded(7)
    >>> once.integers(6, 9).tolist() == again.integers(6, 9).tolist()
    True
    """

    def __init__(self) -> None:
        self._start(os.urandom(KEY_BYTES), is_seeded=False)

    @classmethod
    def seeded(cls, seed: int) -> "NoiseSource":
        """A reproducible source, for tests only.

        >>> NoiseSource.seeded(7).stamp
        'seeded: for tests, no guarantee against anyone who knows the seed'
        """
        if operator.index(seed) < 0:
            raise InvalidInput(f"Expected seed >= 0, got {seed}.")
        return cls._from_root(_hash(b"", b"seed", b"%d" % seed), is_seeded=True)

    @classmethod
    def _from_root(cls, root: bytes, is_seeded: bool) -> "NoiseSource":
        source = cls.__new__(cls)
        source._start(root, is_seeded)
        return source

    def _start(self, root: bytes, is_seeded: bool) -> None:
        # Key separation: the stream, the children and the fingerprint use different hashes of the
        # root, so none of them reveals anything about the others.
        self._root = root
        self._is_seeded = is_seeded
        self._cipher = Cipher(
            algorithms.AES(_hash(root, b"stream")), modes.CTR(bytes(16))
        ).encryptor()
        self._children: set[str] = set()
        self._keys_given = 0
        self._lock = threading.Lock()
        self._process = os.getpid()

    def _rekey_after_fork(self) -> None:
        """Rekey in a forked process, where a copy of the stream would repeat the parent's noise.

        The new key comes from the operating system even for a seeded source, because process ids
        are reused; a reproducible worker creates its own `seeded(seed).derive(label)`.
        """
        if os.getpid() != self._process:
            self._start(_hash(self._root, b"fork", os.urandom(KEY_BYTES)), self._is_seeded)

    @property
    def is_seeded(self) -> bool:
        return self._is_seeded

    @property
    def stamp(self) -> str | None:
        """The warning that reports must print about this source; None if it is not seeded."""
        return SEEDED_STAMP if self._is_seeded else None

    @property
    def fingerprint(self) -> str:
        """A short one-way hash of the key: equal hashes in two workers mean equal noise.

        >>> NoiseSource.seeded(7).fingerprint == NoiseSource.seeded(7).fingerprint
        True
        >>> NoiseSource().fingerprint == NoiseSource().fingerprint
        False
        """
        self._rekey_after_fork()
        return _hash(self._root, b"fingerprint").hex()[:16]

    def derive(self, label: str) -> "NoiseSource":
        """An independent child stream, for example one for each worker.

        The child depends only on the key and the label, not on earlier draws. Each label may be
        used once, because a second child would repeat the noise of the first.

        >>> source = NoiseSource.seeded(7)
        >>> left, right = source.derive("worker 0"), source.derive("worker 1")
        >>> left.fingerprint == right.fingerprint
        False
        >>> source.derive("worker 0")
        Traceback (most recent call last):
        sottovoce.errors.InvalidInput: Expected a new label for every derived source, got 'worker 0'
        again: it would repeat the same noise.
        """
        self._rekey_after_fork()
        with self._lock:
            if label in self._children:
                raise InvalidInput(
                    f"Expected a new label for every derived source, got {label!r} again: "
                    "it would repeat the same noise."
                )
            self._children.add(label)
        return self._from_root(_hash(self._root, b"child", label.encode()), self._is_seeded)

    def fresh_key(self) -> bytes:
        """A single-use key for a compiled kernel that runs AES itself.

        Keys are never repeated, and differ from the keys of this stream and of its children, so a
        counter that starts at zero under a fresh key never reuses a block.

        >>> source = NoiseSource.seeded(7)
        >>> source.fresh_key() == source.fresh_key()
        False
        """
        self._rekey_after_fork()
        with self._lock:
            self._keys_given += 1
            return _hash(self._root, b"key", b"%d" % self._keys_given)

    def fill(self, out: NDArray[Any]) -> None:
        """Overwrite every bit of a contiguous array, whatever its type."""
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise InvalidInput("Expected a contiguous, writable array, got a view: fill a copy.")
        self._rekey_after_fork()
        octets = out.reshape(-1).view(np.uint8).data
        with self._lock:
            for start in range(0, len(octets), len(ZEROS)):
                piece = octets[start : start + len(ZEROS)]
                self._cipher.update_into(ZEROS[: len(piece)], piece)

    def words(self, n: int) -> NDArray[np.uint64]:
        """`n` words of 64 random bits."""
        _validate.not_negative("n", n)
        bits = np.empty(n, np.uint64)
        self.fill(bits)
        return bits

    def halves(self, n: int) -> NDArray[np.uint32]:
        """`n` half-words of 32 random bits."""
        _validate.not_negative("n", n)
        bits = np.empty(n, np.uint32)
        self.fill(bits)
        return bits

    def uniform(self, n: int) -> NDArray[np.float64]:
        """`n` multiples of 2**-53 in [0, 1), all equally likely.

        >>> u = NoiseSource.seeded(7).uniform(1000)
        >>> bool(u.min() >= 0), bool(u.max() < 1)
        (True, True)
        """
        bits = self.words(n)
        np.right_shift(bits, np.uint64(11), out=bits)
        fractions = bits.astype(np.float64)
        fractions *= 2.0**-53
        return fractions

    def integers(self, high: int, n: int) -> NDArray[np.int64]:
        """`n` integers from 0 to high - 1, exactly equally likely; `high` is at most 2**63.

        >>> sorted(set(NoiseSource.seeded(7).integers(6, 1000).tolist()))
        [0, 1, 2, 3, 4, 5]
        """
        if not 1 <= high <= 2**63:
            raise InvalidInput(f"Expected high from 1 to 2**63, got {high}.")
        bits = self.words(n)
        # A plain remainder would favour small results, because 2**64 is not a multiple of `high`.
        # Words of the incomplete last group are redrawn.
        last_fair_word = np.uint64(2**64 - 2**64 % high - 1)
        while (unfair := np.flatnonzero(bits > last_fair_word)).size:
            bits[unfair] = self.words(unfair.size)
        np.remainder(bits, np.uint64(high), out=bits)
        return bits.view(np.int64)

    def __repr__(self) -> str:
        origin = "seeded" if self._is_seeded else "keyed by the operating system"
        return f"<NoiseSource {origin}, fingerprint {self.fingerprint}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A NoiseSource cannot be pickled or copied: the copy would repeat the same noise. "
            "Build a source in each process, or hand out children with derive(label)."
        )


def _hash(key: bytes, purpose: bytes, message: bytes = b"") -> bytes:
    """A keyed 256-bit hash with domain separation by purpose."""
    return hashlib.blake2b(message, key=key, person=purpose, digest_size=KEY_BYTES).digest()
