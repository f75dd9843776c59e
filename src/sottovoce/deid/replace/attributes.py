"""Attributes of a value that its surrogate may share: the gender of a name, the number of a noun.

Both are read off the value by public means: a list of names, and the ending of the last word. What
the list does not know is a class of its own.
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
    """The gender that the first word of a name is usually given to.

    >>> gender("maria lopez"), gender("john"), gender("zebediah")
    ('feminine', 'masculine', 'not told by the list')
    """
    first = name.split(" ")[0].removesuffix("'s")
    if first in _FEMININE:
        return "feminine"
    return "masculine" if first in _MASCULINE else "not told by the list"


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
"""The attribute of a type, what it is called, and how it is read."""
