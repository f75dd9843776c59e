"""The built-in public surrogate lists, by type and language.

Other languages than English have names, places, organisations and addresses of the internet; their
other types get placeholders.

Every list is uniform, which maximises the smallest probability and so minimises epsilon. Types
without a list (free text, numbers) get a placeholder or random digits of the same format. The
fitted lists are longer: they have values of every form (see `forms`), from which a surrogate of the
same form is drawn.
"""

from collections.abc import Iterator
from functools import cache

from sottovoce import _validate
from sottovoce.corpora.synthetic import lexicon
from sottovoce.deid.replace.lists import LANGUAGES, listed
from sottovoce.deid.replace.surrogates import Surrogates, uniform

_STREETS = ("street", "road", "avenue", "lane")
_GROUPS = ("club", "clinic", "school", "pharmacy", "bank")
_UNITS = ("seconds", "minutes", "hours", "days", "weeks", "months", "years")
_DAYS = 28


def _people(language: str) -> Iterator[str]:
    first = _first_names(language)
    yield from first
    last = listed("last", language)
    for place, name in enumerate(first):
        yield f"{name} {last[place % len(last)]}"


def _first_names(language: str) -> tuple[str, ...]:
    if language == "en":
        return tuple(lexicon("first_names"))
    return (*listed("feminine", language), *listed("masculine", language))


def _more_people(language: str) -> Iterator[str]:
    first, last = _first_names(language), listed("last", language)
    yield from last
    for place, name in enumerate(first):
        yield f"{name} {first[(place * 7 + 3) % len(first)]} {last[(place + 11) % len(last)]}"
    yield from listed("role", language)


def _organisations(language: str) -> Iterator[str]:
    if language != "en":
        yield from listed("company")
        return
    for place, street in enumerate(lexicon("streets")):
        yield f"{street} {_GROUPS[place % len(_GROUPS)]}"
    for place, name in enumerate(listed("last", language)[:150]):
        yield f"{name} {_GROUPS[place % len(_GROUPS)]}"


def _addresses(_: str) -> Iterator[str]:
    for place, street in enumerate(lexicon("streets")):
        for kind in _STREETS:
            yield f"{1 + (7 * place) % 99} {street} {kind}"


def _more_addresses(language: str) -> Iterator[str]:
    cities = listed("city", language)
    for place, street in enumerate(lexicon("streets")):
        for kind in _STREETS:
            yield f"{street} {kind}"
            yield f"{1 + (5 * place) % 99} {street} {kind}, {cities[place % len(cities)]}"


def _dates(_: str) -> Iterator[str]:
    yield from ("today", "tomorrow", "yesterday", "tonight", "next week", "this weekend")
    yield from lexicon("weekday")
    for month in lexicon("month"):
        yield month
        for day in lexicon("day_th")[:_DAYS]:
            yield f"{month} {day}"


def _more_dates(_: str) -> Iterator[str]:
    yield from ("spring", "summer", "autumn", "winter", "christmas", "easter", "halloween")
    yield from ("fifties", "sixties", "seventies", "eighties", "nineties", "twenties")
    for way in ("next", "last", "this", "on", "every"):
        yield from (f"{way} {day}" for day in lexicon("weekday"))
    for month in lexicon("month"):
        yield from (f"{day} of {month}" for day in lexicon("day_th")[:_DAYS:3])
        yield from (f"{month} {day} {1950 + 3 * place}" for place, day in enumerate(range(1, 28)))
    for tens in ("eighty", "ninety", "seventy", "sixty"):
        yield from (f"{tens} {one}" for one in ("one", "two", "four", "five", "seven"))
        yield from (f"nineteen {tens} {one}" for one in ("one", "three", "six", "eight"))


def _times(_: str) -> Iterator[str]:
    yield from ("noon", "midnight")
    for hour in lexicon("hour_word"):
        yield from (f"{hour} o'clock", f"half past {hour}", f"quarter to {hour}")
        yield from (f"{hour} {part}" for part in ("am", "pm"))


def _more_times(_: str) -> Iterator[str]:
    yield from ("morning", "afternoon", "evening", "this morning", "tomorrow morning")
    yield from ("half an hour", "half hour", "quarter of an hour", "hour", "minute", "year", "week")
    counts = ("two", "three", "five", "ten", "fifteen", "twenty", "twenty five", "thirty", "forty")
    for unit in _UNITS:
        yield from (f"{count} {unit}" for count in (*counts, "few", "couple of"))
    for hour in lexicon("hour_word"):
        yield hour
        yield from (f"{hour} {minute}" for minute in ("ten", "fifteen", "thirty", "forty five"))


def _mail(_: str) -> Iterator[str]:
    for place, first in enumerate(lexicon("first_names")):
        yield f"{first}@{('mail', 'post', 'work')[place % 3]}.example"


def _more_mail(_: str) -> Iterator[str]:
    last = lexicon("last_names")
    for place, first in enumerate(lexicon("first_names")):
        host = ("mail", "post", "work")[place % 3]
        yield f"{first}.{last[place % len(last)]}@{host}.example"
        yield f"{first} dot {last[place % len(last)]} at {host} dot example"


def _medical(_: str) -> Iterator[str]:
    for name in ("medicines", "conditions", "symptoms"):
        yield from lexicon(name)


def _titles(_: str) -> Iterator[str]:
    nouns = lexicon("nouns")
    for place, adjective in enumerate(lexicon("adjectives")):
        yield f"the {adjective} {nouns[place % len(nouns)]}"


def _more_titles(_: str) -> Iterator[str]:
    nouns = lexicon("nouns")
    yield from nouns
    for place, adjective in enumerate(lexicon("adjectives")):
        yield f"{adjective} {nouns[(place + 50) % len(nouns)]}"


def _more_web(_: str) -> Iterator[str]:
    for noun in lexicon("nouns"):
        yield from (f"https://{noun}.example", f"http://{noun}.example", f"{noun}.example")


_ANY_LANGUAGE = frozenset({"PER", "ORG", "LOC", "EMAIL", "URL"})
_LISTS = {
    "PER": _people,
    "ORG": _organisations,
    "LOC": lambda language: iter(listed("city", language)),
    "ADDRESS": _addresses,
    "DATE": _dates,
    "TIME": _times,
    "EMAIL": _mail,
    "URL": lambda language: (f"www.{noun}.example" for noun in lexicon("nouns")),
    "MEDICAL": _medical,
    "TITLE": _titles,
}
_MORE = {
    "PER": _more_people,
    "ORG": lambda language: iter(listed("company")),
    "LOC": lambda language: iter((*listed("country", language), *listed("state", language))),
    "ADDRESS": _more_addresses,
    "DATE": _more_dates,
    "TIME": _more_times,
    "EMAIL": _more_mail,
    "URL": _more_web,
    "TITLE": _more_titles,
}


@cache
def public_surrogates(
    kind: str, language: str = "en", *, fitted: bool = False
) -> Surrogates | None:
    """The built-in list of a type, or None; the `fitted` one has values of every form.

    >>> places = public_surrogates("LOC")
    >>> round(1 / places.min_probability) == len(places.values)
    True
    >>> "thirty minutes" in public_surrogates("TIME", fitted=True).index
    True
    >>> public_surrogates("TEXT") is None
    True
    """
    _validate.one_of("language", language, LANGUAGES)
    values = _LISTS.get(kind)
    if values is None or (language != "en" and kind not in _ANY_LANGUAGE):
        return None
    name = f"built-in {kind}" if language == "en" else f"built-in {kind} ({language})"
    if not fitted or kind not in _MORE:
        return uniform(values(language), name, shipped=True)
    more = (*values(language), *_MORE[kind](language))
    return uniform(more, f"{name}, by form", shipped=True)
