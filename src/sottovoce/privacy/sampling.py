"""Sampling and worker assignment, decided per record with a keyed pseudorandom function (AES).

Each decision depends only on the key, the record's id and the step, so it does not change when
another record is added or removed, and every rank with the key computes the same result without
communication. The key is secret: amplification by sampling holds only against observers who do not
know which records were sampled.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce.errors import InvalidInput

Indices = NDArray[np.int64]

# Domain separation: the high bits of the second half of a block encode the use.
_MEMBERSHIP, _WORKER, _ORDER = (np.uint64(use << 62) for use in range(3))
_CHUNK = 1 << 16


@dataclass(frozen=True)
class SamplingKey:
    """The secret key for all sampling of a run; `seeded` keys are reproducible, for tests."""

    secret: bytes = field(default_factory=lambda: os.urandom(16), repr=False)
    seeded: bool = False

    @classmethod
    def from_seed(cls, seed: int) -> "SamplingKey":
        digest = hashlib.blake2b(f"sottovoce sampling {seed}".encode(), digest_size=16)
        return cls(digest.digest(), seeded=True)


class Membership:
    """Sampling over a fixed set of units (examples, users), identified by distinct ids.

    >>> members = Membership(["ann", "bob", "eve"], SamplingKey.from_seed(1))
    >>> larger = Membership(["ann", "zoe", "bob", "eve"], SamplingKey.from_seed(1))
    >>> bool(members.workers(2)[2] == larger.workers(2)[3])    # eve stays where she was
    True
    """

    def __init__(self, ids: Iterable[str], key: SamplingKey) -> None:
        self.key = key
        hashes = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in ids]
        self._hashes = np.frombuffer(b"".join(hashes), dtype=np.uint64)
        if len(np.unique(self._hashes)) < len(self._hashes):
            raise InvalidInput(
                "Expected distinct ids, got duplicates: two records with one id would always be "
                "sampled together, and the sampling rate would be wrong for both."
            )

    def __len__(self) -> int:
        return len(self._hashes)

    def poisson(self, step: int, rate: float) -> Indices:
        """The units of one step, each sampled independently with probability `rate`."""
        _validate.rate("rate", rate)
        if rate == 1:
            return np.arange(len(self), dtype=np.int64)
        # rate * 2^64 is exact: a power of two only changes the exponent of a normal rate.
        below = np.uint64(min(int(rate * 2.0**64), 2**64 - 1))
        return np.flatnonzero(self._draws(_MEMBERSHIP, step) < below)

    def workers(self, count: int, step: int = 0) -> Indices:
        """The worker of each unit, uniform among `count` and independent of all other units."""
        _validate.at_least_one("count", count)
        # Multiply the high 32 bits by count: the bias of count / 2^32 is negligible.
        draws = self._draws(_WORKER, step) >> np.uint64(32)
        return (draws * np.uint64(count) >> np.uint64(32)).astype(np.int64)

    def _draws(self, use: np.uint64, step: int) -> NDArray[np.uint64]:
        return _cipher(self.key, self._hashes, use, step)


def shuffled_batches(size: int, batch: int, epoch: int, key: SamplingKey) -> Iterator[Indices]:
    """The batches of one epoch, in an order that depends on positions only, never on the records.

    Every position is in exactly one batch, so replacing one record changes one batch. The last
    batch may be smaller. This sampling gives no amplification.

    >>> sorted(int(i) for b in shuffled_batches(5, 2, 0, SamplingKey.from_seed(1)) for i in b)
    [0, 1, 2, 3, 4]
    """
    _validate.at_least_one("size", size)
    _validate.at_least_one("batch", batch)
    draws = _cipher(key, np.arange(size, dtype=np.uint64), _ORDER, epoch)
    order = np.argsort(draws, kind="stable")
    return (order[start : start + batch] for start in range(0, size, batch))


def _cipher(
    key: SamplingKey, names: NDArray[np.uint64], use: np.uint64, step: int
) -> NDArray[np.uint64]:
    """64 pseudorandom bits for each name: the first half of AES(name, use and step)."""
    if not 0 <= step < 2**62:
        raise InvalidInput(f"Expected a step from 0 to 2^62 - 1, got {step}.")
    # ECB is correct here: AES as a pseudorandom function on distinct blocks.
    encryptor = Cipher(algorithms.AES(key.secret), modes.ECB()).encryptor()
    draws = np.empty(len(names), dtype=np.uint64)
    blocks = np.empty((min(_CHUNK, len(names)), 2), dtype=np.uint64)
    blocks[:, 1] = use | np.uint64(step)
    for start in range(0, len(names), _CHUNK):
        chunk = names[start : start + _CHUNK]
        blocks[: len(chunk), 0] = chunk
        encrypted = encryptor.update(blocks[: len(chunk)].tobytes())
        draws[start : start + len(chunk)] = np.frombuffer(encrypted, dtype=np.uint64)[::2]
    return draws


def group_by(labels: Sequence[str]) -> tuple[list[str], list[Indices]]:
    """The distinct labels in order of first appearance, and the positions of each.

    User-level training samples users: this turns the user of each record into the list of users
    and the records of each.

    >>> users, places = group_by(["ann", "bob", "ann"])
    >>> users, [place.tolist() for place in places]
    (['ann', 'bob'], [[0, 2], [1]])
    """
    places: dict[str, list[int]] = {}
    for place, label in enumerate(labels):
        places.setdefault(label, []).append(place)
    return list(places), [np.array(each, dtype=np.int64) for each in places.values()]
