"""Public lists of surrogates, by language and topic; `__main__` tells where they are from."""

from functools import cache
from importlib import resources

from sottovoce.corpora.synthetic import lexicon

LANGUAGES = ("en", "de", "es")


@cache
def listed(topic: str, language: str = "en") -> tuple[str, ...]:
    """The values of a topic, in lower case; none if the language has no such list.

    >>> listed("country", "de")[0], listed("role", "de")
    ('afghanistan', ())
    """
    return _lists(language).get(topic, ())


@cache
def _lists(language: str) -> dict[str, tuple[str, ...]]:
    text = (resources.files(__package__) / f"{language}.txt").read_text(encoding="utf-8")
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            topic, _, values = line.partition(": ")
            found[topic] = tuple(values.split(", "))
    if language == "en":
        found["city"] = tuple(lexicon("cities"))
        found["last"] = tuple(dict.fromkeys((*lexicon("last_names"), *found.get("last", ()))))
        for gender in ("feminine", "masculine"):
            names = resources.files(__package__) / f"{gender}.txt"
            found[gender] = tuple(names.read_text(encoding="utf-8").split())
    return found
