"""The form of a value: letter case, kind of wording, number of words, gender, grammatical number.

A surrogate that fits has the form of the value it replaces, so the form is released with it. Forms
are determined by public means only: lists of names, patterns, or the ending of the last word.
"""

import re
from collections.abc import Callable, Mapping

from sottovoce.corpora.synthetic import lexicon
from sottovoce.deid.replace.lists import LANGUAGES, listed

Classes = Callable[[str], str]
"""The class of a value in canonical form."""

INITIALS = "initials"
DIGITS = "digits"
_BOTH = [
    frozenset(name for language in LANGUAGES for name in listed(gender, language))
    for gender in ("feminine", "masculine")
]
_FEMININE, _MASCULINE = _BOTH[0] - _BOTH[1], _BOTH[1] - _BOTH[0]
_NO_PLURALS = ("ss", "us", "is")
_ROLES = frozenset(role.split(" ")[-1] for role in listed("role"))
_INITIALS = re.compile(r"(?:[^\W\d_][._] ?){1,6}[^\W\d_]?(?:'s)?")
_UNITS = frozenset(
    f"{unit}{plural}"
    for unit in ("second", "minute", "hour", "day", "week", "month", "year", "decade")
    for plural in ("", "s", "s'")
)
_SMALL = "oh zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_LARGE = "fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty"
_NUMBERS = frozenset(f"{_SMALL} {_LARGE}".split())
_CLOCK = frozenset(
    ("o'clock", "am", "pm", "a.m.", "p.m.", "noon", "midnight", "past", "quarter", "half")
)
_DAYS = frozenset(lexicon("weekday"))
_MONTHS = frozenset(lexicon("month"))
_SPANS = frozenset(
    ("spring", "summer", "autumn", "fall", "winter", "christmas", "easter", "halloween", "century")
)


def canonical(value: str) -> str:
    """The lookup form of a value: lower case, single blanks.

    >>> canonical("New  York")
    'new york'
    """
    return " ".join(value.lower().split())


def match_case(value: str, pattern: str) -> str:
    """Write `value` in the case pattern of `pattern`: capitals, initials, or unchanged.

    Finer case (a capital inside a word) would distinguish a kept value from a surrogate, so kept
    values are normalised to their pattern too.

    >>> match_case("london", "PARIS"), match_case("new york", "Paris"), match_case("london", "rome")
    ('LONDON', 'New York', 'london')
    """
    if pattern[:1].islower() or not pattern[:1].isalpha():
        return value
    if len(pattern) > 1 and pattern.isupper():
        return value.upper()
    return " ".join(word[:1].upper() + word[1:] for word in value.split(" "))


def words(value: str) -> str:
    """The number of words, up to three.

    >>> words("rome"), words("new york"), words("bank of new zealand")
    ('1 word', '2 words', '3 words or more')
    """
    count = value.count(" ") + 1
    return "1 word" if count == 1 else "2 words" if count == 2 else "3 words or more"


def name(value: str) -> str:
    """A name or a role, with its number of words, or initials.

    >>> name("maria lopez"), name("project manager"), name("j. r. r.")
    ('name of 2 words', 'role of 2 words', 'initials')
    """
    if _INITIALS.fullmatch(value):
        return INITIALS
    kind = "role" if value.removesuffix("'s").split(" ")[-1] in _ROLES else "name"
    return f"{kind} of {words(value)}"


def name_of_place(value: str) -> str:
    """The number of words of a place or an organisation, or initials.

    >>> name_of_place("u.k."), name_of_place("new york")
    ('initials', '2 words')
    """
    return INITIALS if _INITIALS.fullmatch(value) else words(value)


def date(value: str) -> str:
    """How a date is put.

    >>> [date(each) for each in ("2024-03-01", "monday", "march 1st", "may", "eighties")]
    ['digits', 'weekday', 'month and day', 'month', 'time of life or year']
    """
    parts = value.split(" ")
    if _has_digits_only(value):
        return DIGITS
    if _DAYS & {*parts}:
        return "weekday" if len(parts) == 1 else words(value)
    if _MONTHS & {*parts}:
        return "month" if len(parts) == 1 else "month and day" if len(parts) == 2 else words(value)
    if _SPANS & {*parts} or parts[-1].endswith("ies"):
        return "time of life or year"
    return words(value)


def time(value: str) -> str:
    """How a time is put.

    >>> [time(each) for each in ("15:30", "half past three", "thirty minutes", "four fifteen")]
    ['digits', 'clock', 'duration', 'numbers']
    """
    parts = value.split(" ")
    if _has_digits_only(value):
        return DIGITS
    if parts[-1] in _UNITS or (parts[0] in ("half", "quarter") and parts[-1] == "hour"):
        return "duration"
    if _NUMBERS.issuperset(parts):
        return "numbers"
    return "clock" if _CLOCK & {*parts} else words(value)


def mail(value: str) -> str:
    """How an e-mail address is written.

    >>> [mail(each) for each in ("ann@x.org", "ann.lee@x.org", "ann dot lee at x dot org")]
    ['name@host', 'name.name@host', 'spoken']
    """
    if "@" not in value:
        return "spoken"
    return "name.name@host" if "." in value.partition("@")[0] else "name@host"


def web(value: str) -> str:
    """How a web address begins.

    >>> web("https://x.org/a"), web("www.x.org"), web("x.org")
    ('https://', 'www.', 'host')
    """
    starts = ("https://", "http://", "www.")
    return next((start for start in starts if value.startswith(start)), "host")


def address(value: str) -> str:
    """Whether an address begins with a house number, and whether it names a city.

    >>> address("12 high street"), address("12 high street, leeds")
    ('number and street', 'number, street and city')
    """
    if not value[:1].isdigit():
        return "street"
    return "number, street and city" if "," in value else "number and street"


def gender(name: str) -> str:
    """The usual gender of the first word of a name.

    >>> gender("maria lopez"), gender("john"), gender("zebediah")
    ('feminine', 'masculine', 'not in the list')
    """
    first = name.split(" ")[0].removesuffix("'s")
    if first in _FEMININE:
        return "feminine"
    return "masculine" if first in _MASCULINE else "not in the list"


def number(noun: str) -> str:
    """Whether the last word of a value ends like a plural.

    >>> number("night sweats"), number("cough"), number("arthritis")
    ('plural', 'singular', 'singular')
    """
    last = noun.split(" ")[-1].removesuffix("'s")
    return "plural" if last.endswith("s") and not last.endswith(_NO_PLURALS) else "singular"


FORMS: Mapping[str, Classes] = {
    "PER": name,
    "ORG": name_of_place,
    "LOC": name_of_place,
    "ADDRESS": address,
    "DATE": date,
    "TIME": time,
    "EMAIL": mail,
    "URL": web,
    "MEDICAL": words,
    "TITLE": words,
}
"""The form of the values of each type."""
ATTRIBUTES: Mapping[str, tuple[str, Classes]] = {
    "PER": ("gender of a name", gender),
    "MEDICAL": ("grammatical number", number),
    "TITLE": ("grammatical number", number),
}
"""For each type, the name of its grammatical attribute and the function that computes it."""


def _has_digits_only(value: str) -> bool:
    return any(each.isdigit() for each in value) and not any(
        each.isalpha() for each in value.replace("am", "").replace("pm", "").replace("p.m", "")
    )
