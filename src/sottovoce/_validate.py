"""Checks of arguments whose messages all read the same: what was expected, then what came."""

import math
from collections.abc import Collection

from sottovoce.errors import InvalidInput

Shape = int | tuple[int, ...]


def positive(name: str, value: float) -> float:
    """Return `value` if it is finite and above zero.

    >>> positive("clip_norm", 1.0)
    1.0
    >>> positive("clip_norm", -1)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected clip_norm > 0, got -1.
    """
    if not (math.isfinite(value) and value > 0):
        raise InvalidInput(f"Expected {name} > 0, got {value:g}.")
    return value


def not_negative(name: str, value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise InvalidInput(f"Expected {name} >= 0, got {value:g}.")
    return value


def between(name: str, value: float, low: float, high: float) -> float:
    """Return `value` if it lies in the closed interval.

    >>> between("scale", 3.0, 1e-3, 1e3)
    3.0
    """
    if not low <= value <= high:
        raise InvalidInput(f"Expected {name} from {low:g} to {high:g}, got {value:g}.")
    return value


def probability(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise InvalidInput(f"Expected {name} to be a probability from 0 to 1, got {value:g}.")
    return value


def rate(name: str, value: float) -> float:
    """A probability that may not be zero: nothing would ever be sampled."""
    if not 0 < value <= 1:
        raise InvalidInput(f"Expected {name} in (0, 1], got {value:g}.")
    return value


def delta(value: float, name: str = "delta") -> float:
    if not 0 <= value < 1:
        raise InvalidInput(f"Expected {name} in [0, 1), got {value:g}.")
    return value


def at_least_one(name: str, value: int) -> int:
    if value < 1:
        raise InvalidInput(f"Expected {name} >= 1, got {value}.")
    return value


def one_of(name: str, value: str, choices: Collection[str]) -> str:
    if value not in choices:
        raise InvalidInput(f"Expected {name} to be one of {', '.join(choices)}, got {value!r}.")
    return value


def shape(value: Shape) -> tuple[int, ...]:
    """Return the shape of an array as a tuple; a number stands for a vector of that length.

    >>> shape(3), shape(())
    ((3,), ())
    """
    sizes = value if isinstance(value, tuple) else (value,)
    if any(size < 0 for size in sizes):
        raise InvalidInput(f"Expected a shape without negative sizes, got {value}.")
    return sizes
