"""The lexicon of the general tagger: public lists of names and places, and clusters of words.

Names and places are those of this package and of Faker (MIT licence), clusters are made of GloVe
vectors (public domain) by k-means, from a fixed start and in 64-bit arithmetic.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.corpora.synthetic import lexicon
from sottovoce.deid.detect.crf.general import Lexicon
from sottovoce.errors import InvalidInput

FAKER = "40.54.0"
FREQUENT = 30_000
"""Words with vectors that are kept for their frequency, whatever text they occur in."""
CLUSTERS = (64, 512, 2048)
_ROUNDS = 12
_LATIN = re.compile(r"[A-Za-zÀ-ɏ][A-Za-zÀ-ɏ' .-]*")
_WORDS = re.compile(r"[^\W\d_][\w' .-]*")
_PLACES = ("cities", "countries", "states", "counties", "city_names", "real_city_names")
_MOST_OF_A_LIST = 2_500  # Italy alone has more villages than all others cities.


def faker_lists() -> dict[str, list[str]]:
    """First names, last names, and places of all of Faker's languages.

    Those in other scripts than the Latin one are lists of their own.
    """
    try:
        import faker  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise InvalidInput(
            f"Expected the package faker, found none: pip install faker=={FAKER}."
        ) from None
    if faker.VERSION != FAKER:
        raise InvalidInput(f"Expected faker {FAKER}, got {faker.VERSION}: other names, other file.")
    kinds = ("first", "last", "place")
    found: dict[str, set[str]] = {kind: set() for kind in kinds}
    found |= {f"{kind} elsewhere": set() for kind in kinds}
    for part in ("person", "address"):
        for provider in _providers(f"faker.providers.{part}"):
            for name in dir(provider):
                kind = _kind(part, name)
                if kind:
                    for value in _entries(getattr(provider, name)):
                        latin = _LATIN.fullmatch(value)
                        found[kind if latin else f"{kind} elsewhere"].add(value)
    return {kind: sorted(values) for kind, values in found.items()}


def _providers(package: str) -> Iterable[Any]:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        yield importlib.import_module(f"{package}.{module.name}").Provider


def _kind(part: str, name: str) -> str:
    if part == "address":
        return "place" if name in _PLACES else ""
    if name.startswith("first_names"):
        return "first"
    return "last" if name.startswith("last_names") else ""


def _entries(values: object) -> list[str]:
    if not isinstance(values, list | tuple | Mapping):
        return []
    plain = (value[0] if isinstance(value, tuple) and value else value for value in values)
    found = [each.strip() for each in plain if isinstance(each, str) and _WORDS.fullmatch(each)]
    if len(found) > _MOST_OF_A_LIST:
        found = sorted(found)[:: len(found) // _MOST_OF_A_LIST + 1]
    return found


def clusters(words: list[str], vectors: NDArray[np.float64], count: int) -> dict[str, int]:
    """Spherical k-means from evenly spaced words, most frequent first."""
    points = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    centres = points[:: max(1, len(points) // count)][:count].copy()
    nearest = np.zeros(len(points), dtype=np.intp)
    for _ in range(_ROUNDS):
        nearest = np.concatenate(
            [(block @ centres.T).argmax(axis=1) for block in np.array_split(points, 32)]
        )
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, points)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        centres = np.where(lengths > 0, sums / np.maximum(lengths, 1e-9), centres)
    return dict(zip(words, nearest.tolist(), strict=True))


def make_lexicon(
    vectors: Path, names: Mapping[str, Iterable[str]], met: frozenset[str] = frozenset()
) -> Lexicon:
    """Lists (F, L, P) and three clusters a word: of frequent words, and of those `met` in training.

    Other words stay out, so that a word of a test set is as unknown here as anywhere.
    """
    lists = {
        "F": [*names["first"], *lexicon("first_names")],
        "L": [*names["last"], *lexicon("last_names")],
        "P": [*names["place"], *lexicon("cities")],
    }
    found: dict[str, list[str]] = {}
    for kind, entries in lists.items():
        parts = {w.strip(".") for e in entries for w in re.split(r"[ -]", e.lower())}
        for word in sorted(parts):
            if len(word) > 1:
                found.setdefault(word, []).append(kind)
    with np.load(vectors, allow_pickle=False) as stored:
        every = [str(word) for word in stored["words"]]
        table = stored["vectors"].astype(np.float64)
    kept = [
        number
        for number, word in enumerate(every)
        if number < FREQUENT or word in met or word in found
    ]
    words = [every[number] for number in kept]
    for count in CLUSTERS:
        for word, number in clusters(words, table[kept], count).items():
            if word.strip():
                found.setdefault(word, []).append(f"{len(str(count))}.{number}")
    return {word: tuple(classes) for word, classes in found.items()}
