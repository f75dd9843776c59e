"""Dates and times in digits, and initials: redrawn in the same format.

Among values of one format every output is equally likely for any input, so epsilon is 0. The format
(order, separators, leading zeros, am or pm) is released. They are always replaced, like numbers.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sottovoce.deid.replace.mechanism import Cost, Scope
from sottovoce.privacy.noise import NoiseSource

_YEARS = (1950, 80)
_MOST_DRAWS = 5
"""For a date or a time; initials need one for each letter."""
_DATE = re.compile(
    r"(?P<year>\d{4})(?P<a>[-/. ])\d{1,2}(?P=a)\d{1,2}"
    r"|\d{1,2}(?P<b>[-/. ])\d{1,2}(?:(?P=b)(?P<late>\d{4}|\d{2}))?|(?P<alone>\d{4})"
)
_TIME = re.compile(
    r"\d{1,2}(?P<mark>[:.h])?(?P<minutes>\d{2})?(?P<seconds>:\d{2})?(?P<half> ?[ap]\.?m\.?)?"
)
_LETTER = re.compile(r"(?!(?<=')s$)[^\W\d_]", re.IGNORECASE)
"""Any letter but the s of a possessive."""
Draw = Callable[[int], int]


@dataclass(frozen=True, kw_only=True)
class Redrawn:
    """Redraws what `rule` recognises; the rest becomes a placeholder.

    >>> shape = Redrawn(rule="date", placeholder="[DATE]")
    >>> [out] = shape.replace(["2024-03-01"], [], NoiseSource())
    >>> bool(re.fullmatch(r"\\d{4}-[01]\\d-[012]\\d", out))
    True
    """

    rule: str
    placeholder: str
    whole: bool = True
    scoped: ClassVar[bool] = False

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        # One draw for the batch. The modulo bias of 2^64 over a few dozen values is negligible.
        needed = sum(max(_MOST_DRAWS, len(value)) for value in values)
        numbers = iter(source.words(needed).tolist())

        def draw(high: int) -> int:
            return int(next(numbers) % high)

        rule = _RULES[self.rule]
        return [rule(value.strip(), draw) or self.placeholder for value in values]

    def channel(self, value: str) -> dict[str, float]:
        """Empty: no output says anything about the value."""
        return {}

    def form(self, value: str) -> str:
        """The format of a value: what is left if every draw is 0."""
        return _RULES[self.rule](value.strip(), lambda high: 0) or self.placeholder

    def cost(self) -> Cost:
        return Cost()

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": f"{self.rule} of the same format", "placeholder": self.placeholder}


def _date(value: str, draw: Draw) -> str:
    found = _DATE.fullmatch(value)
    if found is None:
        return ""
    year = _YEARS[0] + draw(_YEARS[1])
    if found["alone"]:
        return str(year)
    mark = found["a"] or found["b"]
    width = 2 if re.search(r"(?<!\d)0\d(?!\d)", value) else 1
    # A month may stand first or second, so both stay below 13.
    first, second = (f"{1 + draw(12):0{width}d}" for _ in range(2))
    if found["year"]:
        return f"{year}{mark}{first}{mark}{1 + draw(28):0{width}d}"
    late = (
        "" if not found["late"] else f"{mark}{year if len(found['late']) == 4 else year % 100:02d}"
    )
    return f"{first}{mark}{second}{late}"


def _time(value: str, draw: Draw) -> str:
    found = _TIME.fullmatch(value.lower())
    if found is None or (found["minutes"] and not found["mark"]):
        return ""
    half = found["half"] or ""
    hour = 1 + draw(12) if half else draw(24)
    width = 2 if value.startswith("0") else 1
    minutes = f"{found['mark'] or ''}{draw(60):02d}" if found["minutes"] else found["mark"] or ""
    seconds = f":{draw(60):02d}" if found["seconds"] else ""
    other = half.replace("a", "p") if draw(2) else half.replace("p", "a")
    out = f"{hour:0{width}d}{minutes}{seconds}{other}"
    return out.upper() if half and value.isupper() else out


def _initials(value: str, draw: Draw) -> str:
    return _LETTER.sub(
        lambda found: chr((ord("A") if found[0].isupper() else ord("a")) + draw(26)), value
    )


_RULES: dict[str, Callable[[str, Draw], str]] = {
    "date": _date,
    "time": _time,
    "initials": _initials,
}
