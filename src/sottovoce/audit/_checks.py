"""Argument checks of the audit: counts, confidences and arrays of scores."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.errors import InvalidInput

Scores = NDArray[np.float64]
Flags = NDArray[np.bool_]


def confidence(value: float) -> float:
    """Return `value` if it lies strictly between 0 and 1.

    >>> confidence(95)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected a confidence between 0 and 1, such as 0.95, got 95.
    """
    if not 0 < value < 1:
        raise InvalidInput(f"Expected a confidence between 0 and 1, such as 0.95, got {value:g}.")
    return value


def part_of(name: str, value: int, whole: str, size: int) -> int:
    """Return `value` if it is between 0 and `size`.

    >>> part_of("correct", 11, "guesses", 10)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected correct from 0 to guesses (10), got 11.
    """
    if not 0 <= value <= size:
        raise InvalidInput(f"Expected {name} from 0 to {whole} ({size}), got {value}.")
    return value


def scores(name: str, values: ArrayLike, *, size: int | None = None) -> Scores:
    """A vector of numbers without NaN, because comparisons with NaN would hide an error.

    >>> scores("the losses", [0.5, float("nan")])
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected the losses without NaN, got 1 NaN among 2.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise InvalidInput(
            f"Expected {name} as a vector of at least one number, got {array.shape}."
        )
    if size is not None and array.size != size:
        raise InvalidInput(f"Expected {size} numbers in {name}, got {array.size}.")
    if missing := int(np.isnan(array).sum()):
        raise InvalidInput(f"Expected {name} without NaN, got {missing} NaN among {array.size}.")
    return array


def table(name: str, values: ArrayLike, *, columns: int | None = None) -> Scores:
    """A table of numbers without NaN, one row per model or record."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.size == 0:
        raise InvalidInput(f"Expected {name} as a table of numbers, got the shape {array.shape}.")
    if columns is not None and array.shape[1] != columns:
        raise InvalidInput(f"Expected {columns} columns in {name}, got {array.shape[1]}.")
    scores(name, array.ravel())
    return array


def flags(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Flags:
    """Booleans of this shape; numbers are refused, because they could be an index array.

    >>> flags("included", [True, False], (3,))
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected included as booleans of shape (3,), got bool of (2,).
    """
    array = np.asarray(values)
    if array.dtype != np.bool_ or array.shape != shape:
        raise InvalidInput(
            f"Expected {name} as booleans of shape {shape}, got {array.dtype} of {array.shape}."
        )
    return array
