"""Carrier phrases of a domain, and the politeness, fillers and self-repairs of speech around them.

Words added to a phrase are labelled `O` and never split a value.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from sottovoce.corpora.synthetic.domains import domain_of
from sottovoce.corpora.synthetic.draws import Numbers, Shares, cumulative, key, wheel
from sottovoce.corpora.synthetic.grammar import Phrase, expand
from sottovoce.corpora.synthetic.kinds import KINDS, PARTS
from sottovoce.corpora.synthetic.lexicon import Values
from sottovoce.corpora.synthetic.schema import MOODS, Domain, DomainSchema, Intent, SlotType
from sottovoce.errors import InvalidInput

PLACES = 4096  # resolution of the weights of leads and tails
BARE = 0.45  # probability of no lead (or tail), in addition to empty optional parts

FILLERS = ("uh", "um", "like", "you know", "er", "hmm", "i mean", "let's see", "uhm", "well")
REPAIRS = ("no", "no wait", "i mean", "sorry", "no sorry", "or rather", "actually", "wait no")

# A lead and a tail surround a carrier phrase ("could you ... please"), chosen by the mood of the
# phrase; most utterances have none.
_HELLO = "(hey|okay|hi|um|so|alright|uh|hello|hey there|yo|oh|right|well|good morning|now then)"
_POLITE = (
    "(please|can you|could you|could you please|can you please|would you|i need you to"
    "|go ahead and|i want you to|just|will you|kindly|i'd like you to|quickly|try to)"
)
_WISH = (
    "(i want to|i'd like to|let's|i need to|can i|let me|i would like to|could i|help me|may i"
    "|i wanna|i have to|i was hoping to|i'm trying to|i think i should|i was about to)"
)
_TAIL = (
    "(please|now|thanks|for me|right now|thank you|if you can|real quick|okay|will you|asap"
    "|when you get a chance|before i forget|if you don't mind|thanks a lot|and hurry up)"
)
_ASIDE = "(please|thanks|do you know|okay|again|thank you|by any chance|i wonder|or what|right)"

LEADS = {
    "act": f"{_HELLO} [{_POLITE}|{_WISH}]",
    "do": f"{_HELLO} {_POLITE}",
    "ask": f"{_HELLO} (quick question|sorry|tell me|excuse me|remind me|one thing)",
    "say": f"{_HELLO} (yeah|actually|you see|look|listen|i think|honestly|like)",
}
TAILS = {"act": _TAIL, "do": _TAIL, "ask": _ASIDE, "say": _ASIDE}

Words = tuple[str, str]  # text and labels, separated by spaces

_A = re.compile(r"\ba (?=[aei]|o(?!ne\b)|u(?!n[it]|s))")


@cache
def leads(mood: str) -> tuple[Words, ...]:
    """Phrases before a sentence, repeated by weight, each with a trailing space.

    >>> ("can you ", "O O ") in leads("do")
    True
    """
    return tuple((f"{text} ".lstrip(), "O " * len(text.split())) for text in _drawn(LEADS[mood]))


@cache
def tails(mood: str) -> tuple[Words, ...]:
    """Phrases after a sentence, repeated by weight, each with a leading space."""
    return tuple((f" {text}".rstrip(), " O" * len(text.split())) for text in _drawn(TAILS[mood]))


def _drawn(template: str) -> tuple[str, ...]:
    weights = {text: share * (1 - BARE) for text, share in expand(template).items()}
    weights[""] += BARE
    return wheel(weights, PLACES)


def agree(text: str) -> str:
    """Replace `a` by `an` before a vowel.

    >>> agree("play a old movie and a one act play")
    'play an old movie and a one act play'
    """
    return _A.sub("an ", text)


def repair(other: Words, value: Words, number: int) -> Words:
    """A self-repair: another value first, then the intended one.

    The repaired value keeps its label, since it may be private too.

    >>> repair(("five", "B-time"), ("six", "B-time"), 4)
    ('five no sorry six', 'B-time O O B-time')
    """
    words = REPAIRS[number % len(REPAIRS)]
    marks = " ".join("O" for _ in words.split())
    return f"{other[0]} {words} {value[0]}", f"{other[1]} {marks} {value[1]}"


def stumble(text: str, labels: str, number: int) -> tuple[str, str]:
    """Add a filler or a false start to an utterance; `number` determines its kind and position.

    >>> stumble("call john smith", "O B-contact I-contact", 0)
    ('call uh john smith', 'O O B-contact I-contact')
    >>> stumble("call john smith", "O B-contact I-contact", 3)
    ('call call john smith', 'O O B-contact I-contact')
    """
    words, marks = text.split(" "), labels.split(" ")
    number, way = divmod(number, 4)
    number, filler = divmod(number, len(FILLERS))
    if way == 3:  # a repeated start, up to the first value: "can you can you call"
        known = next((i for i, mark in enumerate(marks) if mark != "O"), len(marks))
        start = number % 2 + 1
        if known >= start:
            return " ".join(words[:start] + words), " ".join(marks[:start] + marks)
    gaps = [i for i in range(1, len(marks)) if not marks[i].startswith("I-")]
    place = gaps[number % len(gaps)] if gaps else 0
    added = FILLERS[filler].split(" ")
    return (
        " ".join(words[:place] + added + words[place:]),
        " ".join(marks[:place] + ["O"] * len(added) + marks[place:]),
    )


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
    """A compiled domain: all carriers with their parameters as arrays.

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
