"""Random choices without a random generator: a choice is a hash of where it is made.

`mix` is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014). Applied to (seed, utterance, purpose) it gives the numbers of that
utterance, and applied to (seed, user, kind, rank) it gives the same habit of a user whenever he is
met. So nothing has to be remembered, an utterance depends on no other one, and integer arithmetic
makes the result equal on every platform.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
Shares = npt.NDArray[np.float64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(numbers: Numbers) -> Numbers:
    """Scatter 64-bit integers; neighbours end far apart.

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
    """One 64-bit number for a purpose, the same in every process (unlike `hash`).

    >>> key("seed", 7) == key("seed", 7), key("seed", 7) == key("seed", 8)
    (True, False)
    """
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def zipf(count: int, shift: float) -> list[float]:
    """Weights 1 / (rank + shift) of the ranks 1, 2, ...: a head and a long tail."""
    return [1 / (rank + shift) for rank in range(1, count + 1)]


def cumulative(weights: Sequence[float] | Shares) -> Shares:
    """Running shares, so that `searchsorted(shares, fraction, side="right")` draws by weight."""
    sums = np.cumsum(np.asarray(weights, dtype=np.float64))
    shares: Shares = sums / sums[-1]
    return shares


def wheel(weights: Mapping[str, float], size: int) -> tuple[str, ...]:
    """The items repeated by weight, each at least once: a uniform index draws by weight.

    >>> wheel({"usual": 3, "rare": 1}, 8)
    ('usual', 'rare', 'usual', 'usual', 'usual', 'usual', 'rare', 'rare')
    """
    items = tuple(weights)
    places = max(size - len(items), 0)
    points = (np.arange(places) + 0.5) / max(places, 1)
    chosen = np.searchsorted(cumulative(list(weights.values())), points, side="right")
    return items + tuple(items[index] for index in chosen.tolist())
