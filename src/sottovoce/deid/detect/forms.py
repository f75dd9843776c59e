"""Values whose form is the form of one kind of thing: a MAC address, a key, a number plate.

Every rule has a trigger that is cheap to look for; its expression runs only where that is found.
Repetitions are bounded, or over one class of characters with nothing before them that could match
the same characters, so that the time is linear in the text.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sottovoce.deid.detect.spoken import COUNT

Found = tuple[int, int, str]
Check = Callable[[str], bool]


def verhoeff(number: str) -> bool:
    """Whether the check digit of an Indian Aadhaar number is right.

    >>> verhoeff("2363"), verhoeff("2364")
    (True, False)
    """
    check = 0
    for place, digit in enumerate(reversed(_digits(number))):
        check = _MULTIPLIED[check][_PERMUTED[place % 8][digit]]
    return check == 0


_MULTIPLIED = [
    [(a + b) % 5 if a < 5 and b < 5 else
     5 + (a + b) % 5 if a < 5 else
     5 + (a - b) % 5 if b < 5 else
     (a - b) % 5
     for b in range(10)]
    for a in range(10)
]  # fmt: skip
_FIRST = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)
_PERMUTED = [list(range(10))]
for _ in range(7):
    _PERMUTED.append([_PERMUTED[-1][digit] for digit in _FIRST])


def weighted(number: str, weights: tuple[int, ...], modulus: int = 11) -> bool:
    """Whether the weighted sum of the digits is a multiple of the modulus.

    >>> weighted("943 476 5919", (10, 9, 8, 7, 6, 5, 4, 3, 2, 1))
    True
    """
    digits = _digits(number)
    return (
        len(digits) == len(weights)
        and sum(a * b for a, b in zip(digits, weights, strict=True)) % modulus == 0
    )


def german_tax_id(number: str) -> bool:
    """Whether the check digit is right (ISO 7064, mod 11,10).

    >>> german_tax_id("86 095 742 719"), german_tax_id("86 095 742 718")
    (True, False)
    """
    digits = _digits(number)
    product = 10
    for digit in digits[:-1]:
        total = (digit + product) % 10 or 10
        product = 2 * total % 11
    return len(digits) == 11 and (11 - product) % 10 == digits[-1]


def french_number(number: str) -> bool:
    """Whether the key of a French social security number is right.

    >>> french_number("2 55 08 14 168 025 38")
    True
    """
    digits = "".join(filter(str.isdigit, number))
    return len(digits) == 15 and 97 - int(digits[:13]) % 97 == int(digits[13:])


def spanish_id(number: str) -> bool:
    """Whether the letter of a Spanish identity number is right.

    >>> spanish_id("12345678-Z"), spanish_id("x1234567l"), spanish_id("12345678A")
    (True, True, False)
    """
    lower = number.lower()
    first = {"x": "0", "y": "1", "z": "2"}.get(lower[0], "")
    digits = first + "".join(filter(str.isdigit, lower))
    return lower[-1] == "trwagmyfpdxbnjzsqvhlcke"[int(digits) % 23]


def _digits(number: str) -> list[int]:
    return [int(character) for character in number if character in "0123456789"]


def _nhs(number: str) -> bool:
    return weighted(number, (10, 9, 8, 7, 6, 5, 4, 3, 2, 1))


def _australian_tax(number: str) -> bool:
    return weighted(number, (1, 4, 3, 7, 5, 8, 6, 9, 10))


class Form(NamedTuple):
    """A type, its expression, what its text must hold to be worth a look, and a check.

    With `as_written` capitals matter. A group named `value` is the value, without its context.
    """

    kind: str
    rule: re.Pattern[str]
    trigger: str
    check: Check | None = None
    as_written: bool = False


def _form(
    kind: str,
    expression: str,
    trigger: str,
    check: Check | None = None,
    *,
    as_written: bool = False,
) -> Form:
    return Form(kind, re.compile(rf"(?<!\w){expression}(?!\w)"), trigger, check, as_written)


_HEX = "[0-9a-f]"
_STREET = (
    "Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Way|Terrace|Close|"
    "Square|Sq|Highway|Hwy|Crescent|Parkway|Pkwy|Place|Pl|Row|Hill|Gardens"
)
# One digit at least, which makes all but few texts quick.
WITH_DIGITS: tuple[Form, ...] = (
    _form("ID", r"(?:sk|pk|rk|ghp|gho|xox[abprs]|glpat|akia|eyj)[-_]?[\w-]{12,300}+"
          r"(?:\.[\w-]{4,2000}+){0,2}", ""),
    _form("IP", rf"{_HEX}{{2}}(?:([:-]){_HEX}{{2}})(?:\1{_HEX}{{2}}){{4,6}}", ""),
    _form("IP", rf"{_HEX}{{4}}\.{_HEX}{{4}}\.{_HEX}{{4}}", "."),
    _form("ID", rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}", "-"),
    _form("ID", r"[a-ceghj-prtw-z]{2} ?\d\d ?\d\d ?\d\d ?[a-d]", ""),
    _form("ID", r"\d{4} \d{4} \d{4}", " ", verhoeff),
    _form("ID", r"\d\d \d{3} \d{3} \d{3}", " ", german_tax_id),
    _form("ID", r"\d{3} \d{3} \d{3}", " ", _australian_tax),
    _form("ID", r"[12] ?\d\d ?\d\d ?\d\d ?\d{3} ?\d{3} ?\d\d", "", french_number),
    _form("ID", r"(?:[xyz]\d{7}|\d{8})[ -]?[a-z]", "", spanish_id),
    _form("ID", r"nhs(?: number| no\.?)?:? (?P<value>\d{3}[ -]?\d{3}[ -]?\d{4})", "nhs", _nhs),
    _form("ID", r"(?:passport|licen[cs]e|plate|account|policy|member|patient|case|badge|employee)"
          r"(?: (?:number|no\.?|id))?(?: is)?[:#]? #?(?P<value>[a-z]{0,3}\d{3,12}[a-z]{0,2})", ""),
    _form("ID", r"[A-Z]{2}\d\d ?[A-Z]{3}", "", as_written=True),
    _form("ID", r"[A-Z]{2}-\d{3}-[A-Z]{2}", "-", as_written=True),
    _form("ID", r"[A-ZÄÖÜ]{1,3}-[A-Z]{1,2} ?\d{1,4}[EH]?", "-", as_written=True),
    _form("ID", r"[A-Z]{2} ?\d{1,2} ?[A-Z]{1,2} ?\d{4}", "", as_written=True),
    _form("ID", r"(?:aged?|age is|age of|age:) (?P<value>\d{1,3})", "age"),
    _form("ID", r"(?P<value>\d{1,3})[ -]years?[ -]old", "year"),
    _form("ID", r"(?P<value>\d{1,3}) ?(?:y/o|yo|yrs? old)", "y"),
    _form("LOC", r"-?\d{1,3}\.\d{3,15}°?,? ?[nsew]?,? ?-?\d{1,3}\.\d{3,15}°? ?[nsew]?", "."),
    _form("LOC", r"\d{1,3}° ?\d{1,2}['′](?: ?\d{1,2}(?:\.\d{1,6})?[\"″])? ?[nsew],? ?"
          r"(?:\d{1,3}° ?\d{1,2}['′](?: ?\d{1,2}(?:\.\d{1,6})?[\"″])? ?[nsew])?", "°"),
    _form("LOC", r"[a-z]{1,2}\d[a-z\d]? \d[a-z]{2}", ""),
    _form("LOC", r"[A-Z]{2} \d{5}(?:-\d{4})?", "", as_written=True),
    _form("ADDRESS", rf"\d{{1,5}}[A-Za-z]?,? (?:[^\W\d_a-z][\w'.-]{{0,20}} ){{1,3}}(?:{_STREET})"
          r"(?:\.?,? (?:Apt|Apartment|Suite|Ste|Unit|Floor|Flat)\.? ?#?\w{1,5})?", " ",
          as_written=True),
    _form("ADDRESS", r"\d{1,5} (?!(?:the|this|that|my|of|down|up|on|in) )[a-z]{1,20} "
          r"(?:[a-z]{1,20} )?(?:street|avenue|ave|blvd|boulevard)", " "),
    _form("ADDRESS", r"(?:p\.? ?o\.? ?box|unit|apt\.?|suite) #?\d{1,6}", ""),
    _form("CARD", r"(?:bic|swift)(?: code)?(?: is)?:? "
          r"(?P<value>[a-z]{6}[a-z0-9]{2}(?:[a-z0-9]{3})?)", "i"),
)  # fmt: skip
WITHOUT: tuple[Form, ...] = (
    _form("CARD", r"(?:bic|BIC|swift|SWIFT|Swift)(?: code)?(?: is)?:? "
          r"(?P<value>[A-Z]{6}[A-Z]{2}(?:[A-Z]{3})?)", "", as_written=True),
    _form("ID", rf"(?P<value>{COUNT})[ -]years?[ -]old", "year"),
    _form("ID", r"(?:home|users)[\\/](?P<value>[^\s\\/]{1,100}+)(?=[\\/]|\s|$)", "s"),
    _form("ID", r"@\w[\w.]{1,40}(?<!\.)", "@"),
    _form("ID", r"(?:user ?name|login|handle|password|passwd|api[ _-]?key|secret|token)"
          r"(?: is)? ?[:=] ?\"?(?P<value>[^\s\"]{3,200}+)\"?", "="),
    _form("ID", r"(?:user ?name|login|handle|password|passwd|api[ _-]?key|secret|token)"
          r"(?: is)? ?[:=] ?\"?(?P<value>[^\s\"]{3,200}+)\"?", ":"),
)  # fmt: skip


def forms_in(text: str, lower: str, *, digits: bool) -> Iterator[Found]:
    """What the rules find; `digits` says whether the text has any."""
    for form in (*WITHOUT, *WITH_DIGITS) if digits else WITHOUT:
        if form.trigger and form.trigger not in lower:
            continue
        for match in form.rule.finditer(text if form.as_written else lower):
            group = "value" if "value" in form.rule.groupindex else 0
            if form.check is None or form.check(match[group]):
                yield (*match.span(group), form.kind)
