"""Format-preserving replacement of numbers: every digit, spoken or written, is redrawn.

The format (number of digits, separators) is released; among numbers of one format every output is
equally likely for any input, so epsilon is 0. A format that only one number has would identify it,
so "1 dollar" is written with the plural like any other amount. Numbers are always replaced: keeping
one of 10^n with any probability would cost about n ln 10.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from sottovoce.deid.replace.mechanism import Cost, Scope
from sottovoce.privacy.noise import NoiseSource

_DIGIT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DIGIT = re.compile(rf"\d|\b(?:oh|{'|'.join(_DIGIT_WORDS)})\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_CURRENCIES = ("dollar", "euro", "pound", "cent", "buck")
_FORMAT_WORDS = frozenset(
    ("double", "triple", "oh", "x", "ext", "usd", "eur", "gbp", *_DIGIT_WORDS)
).union(_CURRENCIES, (f"{name}s" for name in _CURRENCIES))
"""Words that belong to the format of a number and are released with it."""
_SINGULAR = re.compile(rf"\b({'|'.join(_CURRENCIES)})\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class FormatPreserving:
    """Redraws digits in place; format words (`double`, `dollars`) stay.

    A value without digits, or with any other letters (`ba2490`, `twenty five`), becomes a
    placeholder, because its letters could identify it.

    >>> same = FormatPreserving(placeholder="[ID]")
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
        # One draw for the batch: a call per number would dominate the run time.
        digits = iter(source.integers(10, sum(counts)).tolist())
        return [
            _SINGULAR.sub(r"\1s", _DIGIT.sub(partial(_redrawn, digits), value))
            if count
            else self.placeholder
            for value, count in zip(values, counts, strict=True)
        ]

    def cost(self) -> Cost:
        return Cost(
            assumptions=(
                "epsilon compares private numbers of the same format: their length, their "
                "separators, and words such as dollars or double are released",
            ),
            reveals=("the format of a number is released as it is, and with it its magnitude",),
        )

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": "digits of the same form", "placeholder": self.placeholder}


def _digits_of(value: str) -> int:
    """The number of digits to replace; 0 for a value with other letters."""
    return (
        len(_DIGIT.findall(value)) if _FORMAT_WORDS.issuperset(_WORD.findall(value.lower())) else 0
    )


def _redrawn(digits: Iterator[int], found: re.Match[str]) -> str:
    drawn = next(digits)
    return str(drawn) if found[0].isdecimal() else _DIGIT_WORDS[drawn]
