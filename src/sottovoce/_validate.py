"""Argument checks with uniform messages: "Expected ..., got ..."."""

import functools
import math
import numbers
import operator
import types
import typing
from collections.abc import Collection, Hashable, Iterable
from dataclasses import fields
from enum import StrEnum
from typing import Any, TypeVar, cast

from sottovoce.errors import InvalidInput

Shape = int | tuple[int, ...]
E = TypeVar("E", bound=StrEnum)


def number(name: str, value: Any) -> float:
    """Return `value` as a float if its type is a real number: not text, bool or complex.

    >>> number("clip_norm", 2)
    2.0
    >>> number("clip_norm", "2")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected clip_norm to be a number, got '2'.
    """
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise InvalidInput(f"Expected {name} to be a number, got {value!r}.")
    try:
        return float(value)
    except OverflowError:
        raise InvalidInput(
            f"Expected {name} to be a number below 1e308, got a larger one."
        ) from None


def whole(name: str, value: Any) -> int:
    """Return `value` as an int if its type is an integer: neither True nor 1.0.

    >>> whole("epochs", True)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected epochs to be a whole number, got True.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise InvalidInput(f"Expected {name} to be a whole number, got {value!r}.") from None


def positive(name: str, value: float) -> float:
    """Return `value` if it is finite and above zero.

    >>> positive("clip_norm", 1.0)
    1.0
    >>> positive("clip_norm", -1)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected clip_norm > 0, got -1.
    """
    if not 0 < number(name, value) < math.inf:
        raise InvalidInput(f"Expected {name} > 0, got {float(value):g}.")
    return value


def not_negative(name: str, value: float) -> float:
    if not 0 <= number(name, value) < math.inf:
        raise InvalidInput(f"Expected {name} >= 0, got {float(value):g}.")
    return value


def between(name: str, value: float, low: float, high: float) -> float:
    """Return `value` if it lies in the closed interval.

    >>> between("scale", 3.0, 1e-3, 1e3)
    3.0
    """
    number(name, value)
    if not low <= value <= high:  # compare integers as integers: 2^53 + 1 is no float
        raise InvalidInput(f"Expected {name} from {low:g} to {high:g}, got {float(value):g}.")
    return value


def probability(name: str, value: float) -> float:
    if not 0 <= number(name, value) <= 1:
        raise InvalidInput(
            f"Expected {name} to be a probability from 0 to 1, got {float(value):g}."
        )
    return value


def rate(name: str, value: float) -> float:
    """Return `value` if it is a probability above zero: at zero nothing is ever sampled."""
    if not 0 < number(name, value) <= 1:
        raise InvalidInput(f"Expected {name} in (0, 1], got {float(value):g}.")
    return value


def delta(value: float, name: str = "delta") -> float:
    if not 0 <= number(name, value) < 1:
        raise InvalidInput(f"Expected {name} in [0, 1), got {float(value):g}.")
    return value


def at_least_one(name: str, value: int) -> int:
    if whole(name, value) < 1:
        raise InvalidInput(f"Expected {name} >= 1, got {value}.")
    return value


def one_of(name: str, value: str, choices: Collection[str]) -> str:
    if value not in choices:
        raise InvalidInput(f"Expected {name} to be one of {', '.join(choices)}, got {value!r}.")
    return value


def shape(value: Shape) -> tuple[int, ...]:
    """Return the shape of an array as a tuple; an integer means a vector of that length.

    >>> shape(3), shape(())
    ((3,), ())
    """
    sizes = value if isinstance(value, tuple) else (value,)
    if any(size < 0 for size in sizes):
        raise InvalidInput(f"Expected a shape without negative sizes, got {value}.")
    return sizes


def parse_choices(instance: Any) -> None:
    """Convert the text in every enum field of a dataclass to its member; reject unknown text.

    Call it first in `__post_init__`: "poisson" becomes Sampling.POISSON, and a misspelt value
    fails here instead of matching no comparison later.
    """
    for name, (choices, alternatives) in _choices_of(cast(Hashable, type(instance))).items():
        value = getattr(instance, name)
        if value is None and type(None) in alternatives:
            continue
        if callable(value) and any(option is not type(None) for option in alternatives):
            continue  # a user-defined function instead of a named choice
        if isinstance(value, tuple) and any(map(_is_tuple, alternatives)):
            continue
        object.__setattr__(instance, name, choice(name, value, choices))


def parse_fields(instance: Any) -> None:
    """Convert every field of a dataclass to its declared type; reject values that do not fit.

    Enums are parsed from text (see `parse_choices`). A float may be any finite real number, but
    not text; an int may not be a bool. None is kept where it is allowed; fields of other types are
    not checked.
    """
    parse_choices(instance)
    for name, declared in _hints(cast(Hashable, type(instance))).items():
        object.__setattr__(instance, name, _parsed(name, getattr(instance, name), declared))


def _parsed(name: str, value: Any, declared: Any) -> Any:
    if typing.get_origin(declared) is types.UnionType:
        options = [option for option in typing.get_args(declared) if option is not type(None)]
        optional = len(options) < len(typing.get_args(declared))
        if len(options) > 1 or (optional and value is None):
            return value
        declared = options[0]
    if declared is float:
        parsed = number(name, value)
        if not math.isfinite(parsed):
            raise InvalidInput(f"Expected {name} to be finite, got {value!r}.")
        return parsed
    if declared is int:
        return whole(name, value)
    if declared in (bool, str):
        if not isinstance(value, declared):
            kind = "True or False" if declared is bool else "text"
            raise InvalidInput(f"Expected {name} to be {kind}, got {value!r}.")
        return value
    if _is_tuple(declared):
        kind = typing.get_args(declared)[0]
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise InvalidInput(f"Expected {name} to be a list, got {value!r}.")
        return tuple(_parsed(f"each of {name}", item, kind) for item in value)
    return value


def _is_tuple(declared: Any) -> bool:
    return typing.get_origin(declared) is tuple


def choice(name: str, value: Any, choices: type[E]) -> E:
    """The member of `choices` that equals `value` or is named by it.

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
def _hints(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


@functools.cache
def _choices_of(kind: type) -> dict[str, tuple[type[StrEnum], tuple[Any, ...]]]:
    """The enum fields of a dataclass, each with its enum and the other types it may hold."""
    found: dict[str, tuple[type[StrEnum], tuple[Any, ...]]] = {}
    for name, declared in _hints(kind).items():
        union = typing.get_origin(declared) in (typing.Union, types.UnionType)
        options = typing.get_args(declared) if union else (declared,)
        enums = [o for o in options if isinstance(o, type) and issubclass(o, StrEnum)]
        if len(enums) == 1:
            rest = tuple(option for option in options if option is not enums[0])
            found[name] = (enums[0], rest)
    return found
