"""A compiled domain: all carrier phrases with their weights, labels and slot values."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from sottovoce.corpora.synthetic.domains import domain_of
from sottovoce.corpora.synthetic.draws import Numbers, Shares, cumulative, key
from sottovoce.corpora.synthetic.grammar import Phrase, expand
from sottovoce.corpora.synthetic.kinds import KINDS, PARTS
from sottovoce.corpora.synthetic.lexicon import Values
from sottovoce.corpora.synthetic.schema import MOODS, Domain, DomainSchema, Intent, SlotType
from sottovoce.corpora.synthetic.speech import Words, agree, leads, tails
from sottovoce.errors import InvalidInput

MOST_HOLES = 5
MOST_WORDS = 40  # of a slot value


class Hole(NamedTuple):
    """A hole: a function from numbers to values, and BIO labels by the number of spaces."""

    draw: Callable[[int], str]
    labels: tuple[str, ...]


class Carrier(NamedTuple):
    """A carrier phrase with `%s` for its holes, in the text and in the labels."""

    text: str
    labels: str
    intent: str
    leads: tuple[Words, ...]
    tails: tuple[Words, ...]
    holes: tuple[Hole, ...]


class Catalogue:
    """All carriers of a domain, with their parameters as arrays.

    `purpose`, `own` and `recurrence` have a row for each carrier and a column for each hole.
    """

    def __init__(self, domain: Domain) -> None:
        values = {kind: _values(kind) for kind in domain.slots.values()}
        holes = {slot: _hole(slot, values[kind]) for slot, kind in domain.slots.items()}
        carriers: list[Carrier] = []
        weights: list[float] = []
        kinds: list[tuple[str, ...]] = []
        for intent, (mood, text, share) in _phrases(domain):
            phrase = Phrase.of(agree(text))
            if len(phrase.holes) > MOST_HOLES:
                raise InvalidInput(f"Expected at most {MOST_HOLES} holes, got {text!r}.")
            carriers.append(
                Carrier(
                    text=phrase.text,
                    labels=" ".join("%s" if "{" in word else "O" for word in text.split()),
                    intent=intent,
                    leads=leads(mood),
                    tails=tails(mood),
                    holes=tuple(holes[name] for name in phrase.holes),
                )
            )
            weights.append(share)
            kinds.append(tuple(domain.slots[name] for name in phrase.holes))
        self.carriers = tuple(carriers)
        self.shares: Shares = cumulative(weights)
        shape = (len(carriers), MOST_HOLES)
        self.purpose: Numbers = np.zeros(shape, dtype=np.uint64)
        self.own: Shares = np.zeros(shape)
        self.recurrence: Shares = np.zeros(shape)
        for row, names in enumerate(kinds):
            for column, name in enumerate(names):
                self.purpose[row, column] = key("kind", name)
                self.own[row, column] = KINDS[name].own
                self.recurrence[row, column] = KINDS[name].recurrence


@cache
def catalogue(domain: str) -> Catalogue:
    return Catalogue(domain_of(domain))


def schema_of(domain: str) -> DomainSchema:
    declared = domain_of(domain)
    return DomainSchema(
        domain=domain,
        intents=tuple(sorted(declared.intents)),
        slots=tuple(
            SlotType(name=slot, entity=KINDS[kind].entity, private=KINDS[kind].private)
            for slot, kind in sorted(declared.slots.items())
            if slot == _declared(slot)
        ),
    )


@cache
def _values(kind: str) -> Values:
    return Values(KINDS[kind].grammar, PARTS)


def _hole(slot: str, values: Values) -> Hole:
    name = _declared(slot)
    labels = (" ".join((f"B-{name}", *[f"I-{name}"] * more)) for more in range(MOST_WORDS))
    return Hole(values.draw, tuple(labels))


def _declared(slot: str) -> str:
    """The slot type of a hole: `{date:past}` is labelled as a date."""
    return slot.partition(":")[0]


def _phrases(domain: Domain) -> list[tuple[str, tuple[str, str, float]]]:
    """Intent, mood, phrase and weight of each carrier; moods are weighted by number of lines."""
    found = []
    for name, intent in domain.intents.items():
        lines = {mood: len(_lines(intent, mood).splitlines()) for mood in MOODS}
        for mood in MOODS:
            share = intent.weight * lines[mood] / sum(lines.values())
            for text, part in expand(_lines(intent, mood), domain.parts).items():
                found.append((name, (mood, text, part * share)))
    return found


def _lines(intent: Intent, mood: str) -> str:
    lines: str = getattr(intent, mood)
    return lines.strip()
