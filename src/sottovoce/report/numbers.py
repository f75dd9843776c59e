"""Format numbers for the page, and parse numbers that may be missing.

Epsilons are rounded up and lower bounds down, so that the page never overstates a result.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sottovoce.privacy.guarantee import claimed_epsilon as claimed_epsilon
from sottovoce.privacy.guarantee import true_epsilon as true_epsilon


def number(value: object) -> float | None:
    """Parse a number from a file; infinity may be a string. None if it is not a number.

    >>> number(3), number("inf"), number(True), number("three"), number(float("nan"))
    (3.0, inf, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        read = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(read) else read


def percent(share: float, digits: int = 1) -> str:
    """A fraction in percent.

    >>> percent(0.1234), percent(0.001)
    ('12.3 %', '0.1 %')
    """
    return f"{100 * share:.{digits}f} %"


def short(value: float) -> str:
    """A number with three significant digits, or with thousands separators.

    >>> short(0.012345), short(1234567.0), short(3.0), short(float("inf"))
    ('0.0123', '1,234,567', '3', 'inf')
    """
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """A duration in readable units.

    >>> duration(0.25), duration(75), duration(7400)
    ('0.25 s', '1 min 15 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@dataclass(frozen=True)
class Measured:
    """A value, with its interval if one was measured."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def read(cls, data: object) -> Self | None:
        """Parse `{"value", "low", "high"}`, `{"wer", "interval"}` or a plain number.

        >>> Measured.read({"value": 0.5, "low": 0.4, "high": 0.6})
        Measured(value=0.5, low=0.4, high=0.6)
        >>> Measured.read(0.5), Measured.read("high")
        (Measured(value=0.5, low=None, high=None), None)
        """
        if not isinstance(data, Mapping):
            plain = number(data)
            return None if plain is None or not math.isfinite(plain) else cls(plain)
        value = number(data.get("value", data.get("wer")))
        if value is None or not math.isfinite(value):
            return None
        low, high = _interval(data)
        return cls(value) if low is None or high is None else cls(value, low, high)

    @property
    def has_interval(self) -> bool:
        return self.low is not None

    def times(self, factor: float) -> "Measured":
        """The value and its interval, multiplied by a factor."""
        if self.low is None or self.high is None:
            return Measured(factor * self.value)
        return Measured(factor * self.value, factor * self.low, factor * self.high)


def _interval(data: Mapping[str, Any]) -> tuple[float | None, float | None]:
    interval = data.get("interval")
    if isinstance(interval, list) and len(interval) == 2:
        return number(interval[0]), number(interval[1])
    return number(data.get("low")), number(data.get("high"))
