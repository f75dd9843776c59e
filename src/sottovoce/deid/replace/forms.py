"""The form of a value: letter case, gender of a name, grammatical number.

A surrogate takes the case pattern of the value it replaces, one of three. The pattern is released
with the value. Finer case (a capital inside a word) would distinguish a kept value from a
surrogate, so kept values are normalised to their pattern too. The other attributes are determined
by public means: a list of names, or the ending of the last word.
"""

from collections.abc import Callable, Mapping
from importlib import resources

Classes = Callable[[str], str]
"""The class of a value in canonical form."""


def _listed(name: str) -> frozenset[str]:
    path = resources.files("sottovoce.deid.replace") / "names" / f"{name}.txt"
    return frozenset(path.read_text(encoding="utf-8").split())


_FEMININE, _MASCULINE = _listed("feminine"), _listed("masculine")
_NO_PLURALS = ("ss", "us", "is")


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


ATTRIBUTES: Mapping[str, tuple[str, Classes]] = {
    "PER": ("gender of a name", gender),
    "MEDICAL": ("grammatical number", number),
    "TITLE": ("grammatical number", number),
}
"""For each type, the name of its attribute and the function that computes it."""


def canonical(value: str) -> str:
    """The lookup form of a value: lower case, single blanks.

    >>> canonical("New  York")
    'new york'
    """
    return " ".join(value.lower().split())


def match_case(value: str, pattern: str) -> str:
    """Write `value` in the case pattern of `pattern`: capitals, initials, or unchanged.

    >>> match_case("london", "PARIS"), match_case("new york", "Paris"), match_case("london", "rome")
    ('LONDON', 'New York', 'london')
    """
    if pattern[:1].islower() or not pattern[:1].isalpha():
        return value
    if len(pattern) > 1 and pattern.isupper():
        return value.upper()
    return " ".join(word[:1].upper() + word[1:] for word in value.split(" "))
