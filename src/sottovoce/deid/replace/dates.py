"""Shift dates by one secret number of days per user: intervals are preserved, dates are not.

Analysts need to know that two events are a week apart, so intervals are released exactly. The shift
hides a date only from readers who know no other date of the same user; no epsilon can be stated.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, ClassVar

from sottovoce import _validate
from sottovoce.corpora.synthetic import lexicon
from sottovoce.deid.replace.forms import match_case
from sottovoce.deid.replace.mechanism import Cost, Scope
from sottovoce.deid.replace.vault import Vault
from sottovoce.privacy.noise import NoiseSource

_MONTHS = lexicon("month")
_WEEKDAYS = lexicon("weekday")
_LEAP_YEAR = 2024  # Assumed when a date has no year, so that 29 February is valid.
_ISO = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})")
_SLASHED = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")
_NAMED = re.compile(rf"({'|'.join(_MONTHS)}) (\d{{1,2}})(?:st|nd|rd|th)?(?:(,?) (\d{{4}}))?")


@dataclass(frozen=True, kw_only=True)
class DateShift:
    """Shifts the dates that it can parse; others become a placeholder.

    >>> shift = DateShift(vault=Vault(bytes(32), within="user"), placeholder="[DATE]")
    >>> scope = Scope(type="DATE", user="u1")
    >>> first, second = shift.replace(["2024-03-01", "2024-03-08"], [scope] * 2, NoiseSource())
    >>> (date.fromisoformat(second) - date.fromisoformat(first)).days
    7
    """

    vault: Vault
    placeholder: str
    days: int = 180
    whole: bool = True
    scoped: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _validate.at_least_one("days", self.days)

    def shift(self, scope: Scope) -> int:
        """Days to add, from -days to days but never 0."""
        drawn = self.vault.prf("date shift", self.vault.scope_name(scope)) % (2 * self.days)
        return drawn - self.days if drawn < self.days else drawn - self.days + 1

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        return [
            self._shifted(value, self.shift(scope))
            for value, scope in zip(values, scopes, strict=True)
        ]

    def _shifted(self, value: str, days: int) -> str:
        plain = value.lower()
        if plain in _WEEKDAYS:
            moved = _WEEKDAYS[(_WEEKDAYS.index(plain) + days) % 7]
            return match_case(moved, value)
        for form, read in _FORMS:
            found = form.fullmatch(plain)
            if found:
                try:
                    return match_case(read(found, timedelta(days=days)), value)
                except (ValueError, OverflowError):
                    break  # Invalid date, such as 31 February.
        return self.placeholder

    def cost(self) -> Cost:
        return Cost(
            why_none=(
                "all dates of a user are shifted by the same number of days, so the time between "
                "two of them is released as it is"
            )
        )

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": "date shift", "days": self.days, "within": self.vault.within}


def _iso(found: re.Match[str], shift: timedelta) -> str:
    year, mark, month, day = found.groups()
    moved = date(int(year), int(month), int(day)) + shift
    return f"{moved.year:04d}{mark}{moved.month:02d}{mark}{moved.day:02d}"


def _slashed(found: re.Match[str], shift: timedelta) -> str:
    month, day, year = map(int, found.groups())
    moved = date(year, month, day) + shift
    return f"{moved.month}/{moved.day}/{moved.year:04d}"


def _named(found: re.Match[str], shift: timedelta) -> str:
    month, day, comma, year = found.groups()
    moved = date(int(year or _LEAP_YEAR), _MONTHS.index(month) + 1, int(day)) + shift
    return f"{_MONTHS[moved.month - 1]} {moved.day}" + (f"{comma} {moved.year}" if year else "")


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], timedelta], str]], ...] = (
    (_ISO, _iso),
    (_SLASHED, _slashed),
    (_NAMED, _named),
)
