"""The built-in public surrogate lists, by type, generated from synthetic word lists.

Every list is uniform, which maximises the smallest probability and so minimises epsilon. Types
without a list (free text, numbers) get a placeholder or random digits of the same format.
"""

from collections.abc import Iterator
from functools import cache

from sottovoce.corpora.synthetic import lexicon
from sottovoce.deid.replace.surrogates import Surrogates, uniform

_STREETS = ("street", "road", "avenue", "lane")
_GROUPS = ("club", "clinic", "school", "pharmacy", "bank")
_DAYS = 28


def _people() -> Iterator[str]:
    yield from lexicon("first_names")
    last = lexicon("last_names")
    for place, first in enumerate(lexicon("first_names")):
        yield f"{first} {last[place % len(last)]}"


def _organisations() -> Iterator[str]:
    for place, street in enumerate(lexicon("streets")):
        yield f"{street} {_GROUPS[place % len(_GROUPS)]}"
    for place, name in enumerate(lexicon("last_names")[:150]):
        yield f"{name} {_GROUPS[place % len(_GROUPS)]}"


def _addresses() -> Iterator[str]:
    for place, street in enumerate(lexicon("streets")):
        for kind in _STREETS:
            yield f"{1 + (7 * place) % 99} {street} {kind}"


def _dates() -> Iterator[str]:
    yield from ("today", "tomorrow", "yesterday", "tonight", "next week", "this weekend")
    yield from lexicon("weekday")
    for month in lexicon("month"):
        yield month
        for day in lexicon("day_th")[:_DAYS]:
            yield f"{month} {day}"


def _times() -> Iterator[str]:
    yield from ("noon", "midnight")
    for hour in lexicon("hour_word"):
        yield from (f"{hour} o'clock", f"half past {hour}", f"quarter to {hour}")
        yield from (f"{hour} {part}" for part in ("am", "pm"))


def _mail() -> Iterator[str]:
    for place, first in enumerate(lexicon("first_names")):
        yield f"{first}@{('mail', 'post', 'work')[place % 3]}.example"


def _medical() -> Iterator[str]:
    for name in ("medicines", "conditions", "symptoms"):
        yield from lexicon(name)


def _titles() -> Iterator[str]:
    nouns = lexicon("nouns")
    for place, adjective in enumerate(lexicon("adjectives")):
        yield f"the {adjective} {nouns[place % len(nouns)]}"


_LISTS = {
    "PER": _people,
    "ORG": _organisations,
    "LOC": lambda: iter(lexicon("cities")),
    "ADDRESS": _addresses,
    "DATE": _dates,
    "TIME": _times,
    "EMAIL": _mail,
    "URL": lambda: (f"www.{noun}.example" for noun in lexicon("nouns")),
    "MEDICAL": _medical,
    "TITLE": _titles,
}


@cache
def public_surrogates(kind: str) -> Surrogates | None:
    """The built-in list of a type, or None.

    >>> places = public_surrogates("LOC")
    >>> round(1 / places.min_probability) == len(places.values)
    True
    >>> public_surrogates("TEXT") is None
    True
    """
    values = _LISTS.get(kind)
    return None if values is None else uniform(values(), f"built-in {kind}", shipped=True)
