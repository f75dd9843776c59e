"""Numbers that keep their form: every digit becomes another random digit, said or written.

The form (how many digits, what parts them) is released; among numbers of one form every output is
equally likely whatever the input, so epsilon is 0. A form that one number alone has would tell it:
"1 dollar" is written with the plural like any other amount. Numbers are always replaced: to keep
one of 10^n with any probability would cost about n ln 10.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from sottovoce.deid.replace.mechanism import Cost, Scope
from sottovoce.privacy.noise import NoiseSource

_SAID = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DIGIT = re.compile(rf"\d|\b(?:oh|{'|'.join(_SAID)})\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_CURRENCIES = ("dollar", "euro", "pound", "cent", "buck")
_FORM = frozenset(("double", "triple", "oh", "x", "ext", "usd", "eur", "gbp", *_SAID)).union(
    _CURRENCIES, (f"{name}s" for name in _CURRENCIES)
)
"""The words that belong to the form of a number and are released with it."""
_SINGULAR = re.compile(rf"\b({'|'.join(_CURRENCIES)})\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class SameForm:
    """Other digits in the same places; the words of the form (`double`, `dollars`) stay.

    A value without digits, or with any other letters (`ba2490`, `twenty five`), becomes a
    placeholder: its letters would tell.

    >>> same = SameForm(placeholder="[ID]")
    >>> import re
    >>> [out] = same.replace(["+1 555-0199"], [Scope(type="PHONE")], NoiseSource())
    >>> bool(re.fullmatch(r"\\+\\d \\d{3}-\\d{4}", out))
    True
    """

    placeholder: str
    whole: bool = True
    scoped: ClassVar[bool] = False

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        counts = [_digits_of(value) for value in values]
        # Drawn at once: a call for each number would take longer than all the rest.
        digits = iter(source.integers(10, sum(counts)).tolist())
        return [
            _SINGULAR.sub(r"\1s", _DIGIT.sub(partial(_other, digits), value))
            if count
            else self.placeholder
            for value, count in zip(values, counts, strict=True)
        ]

    def cost(self) -> Cost:
        return Cost(
            assumptions=(
                "epsilon compares private numbers of the same form: their length, what parts "
                "their digits, and words such as dollars or double are released",
            ),
            reveals=("the form of a number is released as it is, and with it its size",),
        )

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": "digits of the same form", "placeholder": self.placeholder}


def _digits_of(value: str) -> int:
    """How many digits are replaced; none of a value with telling letters."""
    return len(_DIGIT.findall(value)) if _FORM.issuperset(_WORD.findall(value.lower())) else 0


def _other(digits: Iterator[int], found: re.Match[str]) -> str:
    drawn = next(digits)
    return str(drawn) if found[0].isdecimal() else _SAID[drawn]
