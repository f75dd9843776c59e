"""What the adapter learns from: the sets of the general tagger, more templates, and noise.

Every round shows the same sentences differently: other names, another case, without punctuation, as
a recogniser or a hurried thumb writes. Everything is drawn from seeds.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from sottovoce.corpora import Span, Utterance, from_spans, read
from sottovoce.deid.detect.crf.general_corpus import (
    HELD_OUT,
    PUBLIC_TEMPLATES,
    SOURCES,
    Names,
    from_templates,
    generated,
    natural,
    organisation,
    person,
    public,
    spoken,
    swapped,
)
from sottovoce.deid.detect.minilm import templates
from sottovoce.deid.detect.minilm.noise import as_tweet, hesitating, in_case

TYPES = ("ADDRESS", "DATE", "LOC", "ORG", "PER", "TIME")
SHARE_ALIKE = ("ewt", "gmb")
"""Sets under CC BY-SA, or without a licence where they were taken from."""
_TEMPLATES: Mapping[str, tuple[tuple[str, ...], int]] = {
    "tweets": (templates.lines(templates.TWEETS), 1_400),
    "films": (templates.lines(templates.FILMS), 700),
    "news": (templates.lines(templates.NEWS), 1_200),
    "letters": (templates.lines(templates.LETTERS), 1_300),
    "public": ((*templates.lines(templates.PUBLIC), *PUBLIC_TEMPLATES), 700),
}
_PARTS = {
    "ewt": 1,
    "wikigold": 1,
    "nlu-eval": 2,
    "sec-filings": 4,
    "snips": 4,
    "gmb": 4,
    "ami-ne": 6,
}
"""One in so many utterances of a set is shown in a round, and another one with other names."""


def sets(
    data: Path, names: Names, *, held_out: bool | None, without: Sequence[str] = ()
) -> dict[str, list[Utterance]]:
    """The public sets by name, with our types; countries of GMB are places."""
    found = {}
    for name in SOURCES:
        if name in without:
            continue
        mine = (
            _gmb(data, names, held_out)
            if name == "gmb"
            else list(public(data, name, held_out=held_out))
        )
        found[name] = [each for each in mine if each.text.strip()]
    return found


def _gmb(data: Path, names: Names, held_out: bool | None) -> list[Utterance]:
    """GMB calls countries that act `gpe`, as it does the nations that are named after them."""
    source = SOURCES["gmb"]
    countries = {country.lower() for country in names["country"]}
    every = []
    for utterance in islice(read(data / source.file), source.most):
        slots = []
        for token, slot in zip(utterance.tokens, utterance.slots, strict=True):
            is_country = slot[2:] == "gpe" and token.lower() in countries
            slots.append(f"{slot[:2]}geo" if is_country else slot)
        every.append(natural(utterance.tokens, slots, source.labels))
    border = len(every) - len(every) // HELD_OUT
    return every if held_out is None else every[border:] if held_out else every[:border]


def rounds(
    known: Mapping[str, Sequence[Utterance]], names: Names, number: int
) -> Iterator[Utterance]:
    """All that one round of training shows, in the order of the sets."""
    draws = random.Random(1800 + number)
    for name, mine in known.items():
        part = _PARTS[name]
        copies = [*mine[number % part :: part]]
        copies += swapped(mine[(number + part // 2) % part :: part], names, draws)
        for each in copies:
            yield _shown(each, draws, tweets=0.12 if name in ("ewt", "nlu-eval") else 0.02)
    for each in generated(250, 2018 + number):
        yield each
    for each in from_templates(500, names, draws):
        yield _shown(each, draws, tweets=0.05)
    for kind, (lines, size) in _TEMPLATES.items():
        tweets = 0.7 if kind == "tweets" else 0.15 if kind == "public" else 0.0
        for _ in range(size):
            made = filled(draws.choice(lines), names, draws)
            if kind == "films" and draws.random() < 0.8:
                yield spoken(made)
            else:
                yield _shown(made, draws, tweets=tweets)


def _shown(utterance: Utterance, draws: random.Random, *, tweets: float) -> Utterance:
    """One of the ways in which a sentence may be written."""
    form = draws.random()
    if form < tweets:
        return as_tweet(utterance, draws)
    form = draws.random()
    if form < 0.16:
        return spoken(utterance)
    if form < 0.22:
        return hesitating(spoken(utterance), draws)
    return in_case(utterance, draws)


def filled(template: str, names: Names, draws: random.Random) -> Utterance:
    """A template with values."""
    text, spans = "", list[Span]()
    for piece in re.split(r"(\{[A-Z]+\})", template):
        kind = piece[1:-1] if piece.startswith("{") else ""
        made = _MAKERS[kind](names, draws) if kind else piece
        if kind in TYPES:
            spans.append(Span(len(text), len(text) + len(made), kind))
        text += made
    return from_spans(text, spans)


def address(names: Names, draws: random.Random) -> str:
    """A postal address, as it is written in one of several countries."""
    street = draws.choice(names["last"] if draws.random() < 0.7 else names["place"])
    number = draws.randrange(1, 9999 if draws.random() < 0.3 else 200)
    town, code = draws.choice(names["place"]), draws.randrange(10000, 99999)
    form = draws.random()
    if form < 0.55:
        line = f"{number} {street} {draws.choice(_STREETS)}{draws.choice(_FLATS)}"
        if form < 0.2:
            return line
        state = draws.choice(("CA", "NY", "TX", "Ohio", "FL", "WA", "MA", "Illinois", "GA", ""))
        line = f"{line}, {town}{f', {state}' if state else ''}"
        return line if form < 0.3 else f"{line} {code}"
    if form < 0.7:
        area = f"{draws.choice('BCEGLMNSW')}{draws.randrange(1, 30)}"
        unit = f"{draws.randrange(1, 9)}{draws.choice('AB')}{draws.choice('DEX')}"
        return f"{number} {street} {draws.choice(_STREETS)}, {town} {area} {unit}"
    if form < 0.82:
        way = draws.choice(("straße", "strasse", "weg", "platz"))
        return f"{street}{way} {number}, {code} {town}"
    if form < 0.92:
        way = draws.choice(("rue", "avenue", "calle", "via", "rua"))
        return f"{number} {way} {street}, {code} {town}"
    return f"P.O. Box {number}, {town}"


_STREETS = templates.choices(
    "Street|St|St.|Road|Rd|Avenue|Ave|Lane|Drive|Court|Way|Boulevard|Blvd|Close|Square|Place|Gardens"
)
_FLATS = ("", "", "", ", Apt 4", ", Suite 210", " Apt. 3B", ", Unit 7", " #12")


def _handle(names: Names, draws: random.Random) -> str:
    stem = draws.choice((*names["english first"], *_HANDLES)).lower().replace(" ", "")
    return stem + draws.choice(("", "", "_", "x", str(draws.randrange(100)), "xo", "_official"))


_HANDLES = ("music", "real", "the", "lil", "queen", "sports", "news", "mr", "its", "love", "daily")


def _one_of(entries: str) -> Callable[[Names, random.Random], str]:
    every = templates.choices(entries)
    return lambda names, draws: draws.choice(every)


def _person(names: Names, draws: random.Random) -> str:
    form = draws.random()
    if form < 0.5:  # as most English text has them
        first = draws.choice(names["english first"])
        return first if form < 0.22 else f"{first} {draws.choice(names['english last'])}"
    return person(draws.choice(("a", "a b", "a b")), names, draws)


_MAKERS: Mapping[str, Callable[[Names, random.Random], str]] = {
    "PER": _person,
    "LOC": lambda names, draws: draws.choice(
        names["known place"] if draws.random() < 0.5 else names["place"]
    ),
    "ORG": lambda names, draws: (
        draws.choice(names["organisation"])
        if draws.random() < 0.6
        else organisation(draws.choice(names["organisation"]), names, draws)
    ),
    "DATE": _one_of(templates.DATES),
    "TIME": _one_of(templates.TIMES),
    "ADDRESS": address,
    "TITLE": _one_of(templates.TITLES),
    "WORK": _one_of(templates.WORKS),
    "GENRE": _one_of(templates.GENRES),
    "NATION": _one_of(templates.NATIONS),
    "HANDLE": _handle,
    "HEX": lambda names, draws: f"{draws.randrange(16, 256):02{draws.choice('xX')}}",
    "N": lambda names, draws: str(draws.randrange(draws.choice((10, 100, 2020)))),
}
