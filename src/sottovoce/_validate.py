"""Checks of arguments whose messages all read the same: what was expected, then what came."""

import functools
import math
import types
import typing
from collections.abc import Collection
from dataclasses import fields
from enum import StrEnum
from typing import Any, TypeVar

from sottovoce.errors import InvalidInput

Shape = int | tuple[int, ...]
E = TypeVar("E", bound=StrEnum)


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


def parse_choices(instance: Any) -> None:
    """Turn the text in every enum field of a dataclass into its member, or refuse it.

    Call it first in `__post_init__`: whoever types "poisson" gets Sampling.POISSON, and nobody
    gets a setting that no comparison recognises.
    """
    for name, (choices, alternatives) in _choices_of(type(instance)).items():
        value = getattr(instance, name)
        if value is None and type(None) in alternatives:
            continue
        if callable(value) and any(option is not type(None) for option in alternatives):
            continue  # a function of one's own beside the named ones
        object.__setattr__(instance, name, choice(name, value, choices))


def choice(name: str, value: Any, choices: type[E]) -> E:
    """The member of `choices` that `value` is or spells.

    >>> from sottovoce.privacy.guarantee import Unit
    >>> choice("unit", "user", Unit)
    <Unit.USER: 'user'>
    >>> choice("unit", "speaker", Unit)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected unit to be one of token, utterance, user, example, got
    'speaker'.
    """
    try:
        return choices(value)
    except ValueError:
        names = ", ".join(choices)
        raise InvalidInput(f"Expected {name} to be one of {names}, got {value!r}.") from None


@functools.cache
def _choices_of(kind: type) -> dict[str, tuple[type[StrEnum], tuple[Any, ...]]]:
    """The enum fields of a dataclass: the enum, and what else the field may hold."""
    hints = typing.get_type_hints(kind)
    found: dict[str, tuple[type[StrEnum], tuple[Any, ...]]] = {}
    for field in fields(kind):
        declared = hints[field.name]
        union = typing.get_origin(declared) in (typing.Union, types.UnionType)
        options = typing.get_args(declared) if union else (declared,)
        enums = [o for o in options if isinstance(o, type) and issubclass(o, StrEnum)]
        if len(enums) == 1:
            rest = tuple(option for option in options if option is not enums[0])
            found[field.name] = (enums[0], rest)
    return found
