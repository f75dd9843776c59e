"""Format-preserving replacement of numbers: every digit, spoken or written, is redrawn.

The format (number of digits, separators) is released; among numbers of one format every output is
equally likely for any input, so epsilon is 0. A format that only one number has would identify it,
so "1 dollar" is written with the plural like any other amount. Numbers are always replaced: keeping
one of 10^n with any probability would cost about n ln 10. In identifiers such as AB123456C, letters
are redrawn too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sottovoce.deid.replace.mechanism import Cost, Scope
from sottovoce.privacy.noise import NoiseSource

_DIGIT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DIGIT = re.compile(rf"\d|\b(?:oh|{'|'.join(_DIGIT_WORDS)})\b", re.IGNORECASE)
_DIGIT_OR_LETTER = re.compile(rf"{_DIGIT.pattern}|[^\W\d_]", re.IGNORECASE)
_WITH_DIGIT = re.compile(r"\S*\d\S*")
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

    With `letters`, letters of words with digits are redrawn too. A value without digits, or with
    any other letters (`ba2490`, `twenty five`), becomes a placeholder, because its letters could
    identify it.

    >>> same = FormatPreserving(placeholder="[ID]")
    >>> import re
    >>> [out] = same.replace(["+1 555-0199"], [Scope(type="PHONE")], NoiseSource())
    >>> bool(re.fullmatch(r"\\+\\d \\d{3}-\\d{4}", out))
    True
    """

    placeholder: str
    letters: bool = False
    whole: bool = True
    scoped: ClassVar[bool] = False

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        found = [symbols(value, letters=self.letters) for value in values]
        # One draw for the batch: a call per number would dominate the run time. The modulo bias of
        # 2^64 over 10 or 26 symbols is negligible.
        drawn = iter(source.words(sum(map(len, found))).tolist())
        return [
            rewritten(value, places, [next(drawn) for _ in places]) if places else self.placeholder
            for value, places in zip(values, found, strict=True)
        ]

    def form(self, value: str) -> str:
        """The format of a number, written with zeros."""
        places = symbols(value, letters=self.letters)
        return rewritten(value, places, [0] * len(places)) if places else self.placeholder

    def cost(self) -> Cost:
        letters = ", which characters are letters and their case" if self.letters else ""
        return Cost(
            assumptions=(
                f"epsilon compares private numbers of the same format: their length{letters}, "
                "their separators, and words such as dollars or double are released",
            ),
            reveals=("the format of a number is released as it is, and with it its magnitude",),
        )

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": "digits of the same form", "placeholder": self.placeholder}


def symbols(value: str, *, letters: bool) -> list[re.Match[str]]:
    """The symbols to replace: digits, digit words, and letters; none for a value with other words.

    >>> [found[0] for found in symbols("AB-12 double five", letters=True)]
    ['A', 'B', '1', '2', 'five']
    """
    if letters:
        rest = [word for word in value.split() if not _WITH_DIGIT.fullmatch(word)]
        pattern = _DIGIT_OR_LETTER
    else:
        rest, pattern = [value], _DIGIT
    if not _FORMAT_WORDS.issuperset(_WORD.findall(" ".join(rest).lower())):
        return []
    found = list(pattern.finditer(value))
    kept = [each for each in found if not letters or _in_word(value, each) or not _is_letter(each)]
    return kept if any(not _is_letter(each) for each in kept) else []


def canonical_symbols(places: Sequence[re.Match[str]]) -> str:
    """The number without its format: digits and lower-case letters."""
    return "".join(_plain(each[0]) for each in places)


def rewritten(value: str, places: Sequence[re.Match[str]], numbers: Sequence[int]) -> str:
    """The value with its symbols replaced by those that the numbers choose."""
    parts, place = [], 0
    for found, number in zip(places, numbers, strict=True):
        parts += [value[place : found.start()], _symbol(found, number)]
        place = found.end()
    return _SINGULAR.sub(r"\1s", "".join([*parts, value[place:]]))


def _symbol(found: re.Match[str], number: int) -> str:
    if found[0].isdecimal():
        return str(number % 10)
    if not _is_letter(found):
        return _DIGIT_WORDS[number % 10]
    first = "A" if found[0].isupper() else "a"
    return chr(ord(first) + number % 26)


def _plain(symbol: str) -> str:
    lower = symbol.lower()
    if lower == "oh":
        return "0"
    return str(_DIGIT_WORDS.index(lower)) if lower in _DIGIT_WORDS else lower


def _is_letter(found: re.Match[str]) -> bool:
    return len(found[0]) == 1 and not found[0].isdecimal()


def _in_word(value: str, found: re.Match[str]) -> bool:
    """Whether a letter belongs to a word with digits, or of digits only."""
    start = value.rfind(" ", 0, found.start()) + 1
    end = value.find(" ", found.end())
    return bool(_WITH_DIGIT.fullmatch(value[start : end if end >= 0 else len(value)]))
