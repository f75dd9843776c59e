"""Deterministic random choices: each choice is a hash of its context.

`mix` is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014). Applied to (seed, utterance, purpose) it gives the random numbers of that
utterance; applied to (seed, user, kind, rank) it gives a recurring habit of a user. So there is no
state, utterances are independent of each other, and integer arithmetic makes the result the same on
every platform.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
Shares = npt.NDArray[np.float64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(numbers: Numbers) -> Numbers:
    """Hash 64-bit integers.

    >>> mix(np.arange(3, dtype=np.uint64) * GOLDEN).tolist()
    [0, 16294208416658607535, 7960286522194355700]
    """
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def unit(numbers: Numbers) -> Shares:
    """The upper 53 bits as a fraction in [0, 1)."""
    return (numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53


def key(*parts: str | int) -> int:
    """A 64-bit key for a purpose, the same in every process (unlike `hash`).

    >>> key("seed", 7) == key("seed", 7), key("seed", 7) == key("seed", 8)
    (True, False)
    """
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def zipf(count: int, shift: float) -> list[float]:
    """Zipf weights 1 / (rank + shift) of the ranks 1, 2, ..."""
    return [1 / (rank + shift) for rank in range(1, count + 1)]


def cumulative(weights: Sequence[float] | Shares) -> Shares:
    """Cumulative weights, for sampling with `searchsorted(shares, fraction, side="right")`."""
    sums = np.cumsum(np.asarray(weights, dtype=np.float64))
    shares: Shares = sums / sums[-1]
    return shares


def wheel(weights: Mapping[str, float], size: int) -> tuple[str, ...]:
    """The items repeated in proportion to their weights, so that a uniform index samples by weight.

    Each item occurs at least once.

    >>> wheel({"usual": 3, "rare": 1}, 8)
    ('usual', 'rare', 'usual', 'usual', 'usual', 'usual', 'rare', 'rare')
    """
    items = tuple(weights)
    places = max(size - len(items), 0)
    points = (np.arange(places) + 0.5) / max(places, 1)
    chosen = np.searchsorted(cumulative(list(weights.values())), points, side="right")
    return items + tuple(items[index] for index in chosen.tolist())
