"""The text that the general tagger learns from: public sets, brought to five types, and more of it.

Only sets whose licences allow it (see `general.md`). More of it: names of many cultures and places
put in the place of others, titles, possessives, hyphens; a part without punctuation, as speech is
transcribed. Everything is drawn from fixed seeds.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sottovoce.corpora import Span, Utterance, from_spans, read, spans_of
from sottovoce.corpora.synthetic import DOMAINS, generate
from sottovoce.deid.detect.crf.general import TITLES, words_in
from sottovoce.deid.detect.labels import mapping

TYPES = ("DATE", "LOC", "ORG", "PER", "TIME")
HELD_OUT = 5
"""The last fifth of each set is held out where figures are to be measured."""
Names = Mapping[str, Sequence[str]]

_ELSEWHERE = 0.02  # of the names are written in another script
_CLOCK = re.compile(r"\d:\d|o'clock|[ap]\.?m\b|noon|midnight|morning|evening|afternoon", re.I)
# Roles in contracts and meetings, which some sets label as people or as organisations.
_ROLES = words_in(
    "borrower lender bank company agent executive employee guarantor project manager industrial "
    "designer marketing expert user interface i_d_ u_i_d_ p_m_ m_e_ coach coaches specialist "
    "real reaction commonwealth my i me our state home airport here world downtown town school "
    "work house office store restaurant the"
)
_VAGUE = words_in(
    "two three four five six seven eight nine ten now current this that week weeks day days year "
    "years month months hour hours minute minutes recent daily weekly early late last next the "
    "a one in meal breakfast lunch dinner second seconds from"
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A set: its files, its labels, and how many utterances of it to take."""

    file: str
    labels: Mapping[str, str]
    most: int = 1_000_000
    keep_empty: int = 1
    """One in so many utterances without private values is kept."""


_NEWS = {"PER": "PER", "LOC": "LOC", "ORG": "ORG"}
SOURCES: Mapping[str, Source] = {
    "ewt": Source(file="ner/ewt/train.jsonl", labels=_NEWS),
    "wikigold": Source(file="ner/wikigold/train.jsonl", labels=_NEWS),
    "sec-filings": Source(file="ner/sec-filings/train.jsonl", labels=_NEWS),
    "gmb": Source(
        file="ner/gmb/train.jsonl.gz",
        labels={"per": "PER", "geo": "LOC", "org": "ORG", "tim": "DATE"},
    ),
    "ami-ne": Source(
        file="ner/ami-ne/train.jsonl.gz",
        labels={
            **dict.fromkeys(("PROJECT_MANAGER", "INTERFACE_SPECIALIST", "MARKETING"), "PER"),
            **dict.fromkeys(("INDUSTRIAL_DESIGNER", "EXPERIMENTER", "OTHER"), "PER"),
            "LOCATION": "LOC",
            "ORGANIZATION": "ORG",
            "DATE": "DATE",
            "TIME": "TIME",
        },
        keep_empty=3,
    ),
    "nlu-eval": Source(
        file="nlu/nlu-eval/train.jsonl",
        labels={
            **dict.fromkeys(("person", "artist_name", "audiobook_author"), "PER"),
            "place_name": "LOC",
            "business_name": "ORG",
            "date": "DATE",
            "time": "TIME",
        },
    ),
    "snips": Source(
        file="nlu/snips/train.jsonl.gz",
        labels={
            **dict.fromkeys(("artist", "playlist_owner"), "PER"),
            **dict.fromkeys(("restaurant_name", "location_name"), "ORG"),
            **dict.fromkeys(("city", "state", "country", "geographic_poi"), "LOC"),
        },
        most=5_000,
    ),
}


def public(data: Path, name: str, *, held_out: bool | None = None) -> Iterator[Utterance]:
    """The utterances of a set with our types; all, or those (not) held out."""
    source = SOURCES[name]
    every = list(islice(read(data / source.file), source.most))
    border = len(every) - len(every) // HELD_OUT
    chosen = every if held_out is None else every[border:] if held_out else every[:border]
    empty = 0
    for utterance in chosen:
        made = natural(utterance.tokens, utterance.slots, source.labels)
        if set(made.slots) == {"O"} and not held_out:
            empty += 1
            if empty % source.keep_empty:
                continue
        yield made


def natural(tokens: Sequence[str], slots: Sequence[str], labels: Mapping[str, str]) -> Utterance:
    """Text as people write it: no blank before an ending or a full stop.

    >>> natural(["Ann", "'s", "dog", "."], ["B-PER", "O", "O", "O"], {"PER": "PER"}).text
    "Ann's dog."
    """
    text, spans = "", list[Span]()
    for token, slot in zip(tokens, slots, strict=True):
        shown = _spelled(token)
        glued = shown in {".", ",", "?", "!", ";", ":", ")", "n't"} or (
            shown[0] in "'’" and shown[1:].isalpha()
        )
        start = len(text) + (not glued and bool(text))
        text += shown if glued or not text else f" {shown}"
        kind = labels.get(slot[2:], "")
        if not kind:
            continue
        if slot[0] == "I" and spans and spans[-1].type == kind and start - spans[-1].end <= 1:
            spans[-1] = Span(spans[-1].start, len(text), kind)
        else:
            spans.append(Span(start, len(text), kind))
    kept = [span for found in spans if (span := _cleaned(text, found))]
    return from_spans(text, kept)


def _spelled(token: str) -> str:
    """Letters that were read out: U_K_ is UK."""
    if re.fullmatch(r"(?:[A-Z]_)+(?:'s|s)?", token):
        return token.replace("_", "")
    return token.replace("_", "") or token


def _cleaned(text: str, span: Span) -> Span | None:
    """A span without titles and possessives; nothing for roles and for times that name no day."""
    start, end, kind = span
    value = text[start:end]
    if kind == "PER":
        while (head := re.match(r"(\w+)\.?\s+", value)) and head[1].lower() in TITLES:
            start += head.end()
            value = text[start:end]
        if value.strip(".").lower() in TITLES:
            return None
    if ending := re.search(r"\s?['’]s?$", value):
        end -= len(ending[0])
        value = text[start:end]
    words = set(re.findall(r"\w+", value.lower()))
    if not words or (kind in ("PER", "ORG", "LOC") and words <= _ROLES):
        return None
    if kind in ("DATE", "TIME") and (words <= _VAGUE or value.isdigit()):
        return None
    if kind == "DATE" and _CLOCK.search(value):
        kind = "TIME"
    return Span(start, end, kind)


def generated(size: int, seed: int) -> Iterator[Utterance]:
    """The built-in domains, with our types only."""
    for domain in DOMAINS:
        labels = mapping("cautious")
        for utterance in generate(domain, size=size, seed=seed):
            typed = labels.typed(spans_of(utterance))
            yield from_spans(utterance.text, [span for span in typed if span.type in TYPES])


def swapped(
    utterances: Iterable[Utterance], names: Names, draws: random.Random
) -> Iterator[Utterance]:
    """Those with people, places or organisations, with others in their place."""
    for utterance in utterances:
        spans = spans_of(utterance)
        if not any(span.type in _MAKERS for span in spans):
            continue
        text, found, beyond = "", list[Span](), 0
        for start, end, kind in spans:
            value = utterance.text[start:end]
            made = _MAKERS[kind](value, names, draws) if kind in _MAKERS else value
            if utterance.text.islower():
                made = made.lower()
            text += utterance.text[beyond:start]
            found.append(Span(len(text), len(text) + len(made), kind))
            text += made
            beyond = end
        yield from_spans(text + utterance.text[beyond:], found)


def _first(names: Names, draws: random.Random) -> str:
    return draws.choice(names["first"])


def _last(names: Names, draws: random.Random) -> str:
    name = draws.choice(names["last"])
    form = draws.random()
    if form < 0.06:
        return f"{name}-{draws.choice(names['last'])}"
    if form < 0.10:
        return draws.choice(("O'", "Mc", "de ", "van ", "al-", "D'")) + name
    return name


def person(value: str, names: Names, draws: random.Random) -> str:
    """As many words as before."""
    count = len(value.split())
    if draws.random() < _ELSEWHERE:
        parts = [draws.choice(names["first elsewhere"]), draws.choice(names["last elsewhere"])]
        return " ".join(parts[: min(count, 2)])
    if count == 1:
        return _first(names, draws) if draws.random() < 0.5 else _last(names, draws)
    middle = f" {draws.choice('ABCDEFGHJKLMNPRSTW')}." if draws.random() < 0.1 else ""
    if count > 2 and not middle:
        middle = f" {_first(names, draws)}"
    return f"{_first(names, draws)}{middle} {_last(names, draws)}"


def place(value: str, names: Names, draws: random.Random) -> str:
    if draws.random() < _ELSEWHERE:
        return draws.choice(names["place elsewhere"])
    return draws.choice(names["place"]) if len(value.split()) <= 2 else value


def organisation(value: str, names: Names, draws: random.Random) -> str:
    form = draws.random()
    if form < 0.5:
        return value
    one, two = draws.choice(names["last"]), draws.choice(names["last"])
    if form < 0.62:
        return one
    if form < 0.72:
        return f"{one}, {two} and {draws.choice(names['last'])}"
    if form < 0.82:
        return f"{one} {draws.choice(('Inc', 'LLC', 'Ltd', 'Group', 'PLC', 'GmbH', 'Corp'))}"
    ending = ("University", "Hospital", "Bank", "School", "Insurance", "Airlines", "Foods")
    return f"{draws.choice(names['place']) if form < 0.92 else one} {draws.choice(ending)}"


_MAKERS: Mapping[str, Callable[[str, Names, random.Random], str]] = {
    "PER": person,
    "LOC": place,
    "ORG": organisation,
}

TEMPLATES = tuple(
    line.strip()
    for line in """
My name is {PER} and I live in {LOC}.
hi, this is {PER} speaking, i am calling from {ORG}
The patient, {TITLE} {PER}, saw Dr. {PER} on {DATE}.
{PER}'s and {PER}'s house
{TITLE} {PER} was admitted to {ORG} in {LOC} on {DATE}.
Please send the invoice to {PER} at {ORG}.
Dear {PER}, thank you for your order.
Dear {TITLE} {PER}, your appointment is on {DATE} at {TIME}.
Best regards, {PER}
Kind regards, {PER}, {ORG}
Thanks, {PER}
{PER} wrote: I will be in {LOC} {DATE}.
From: {PER} To: {PER} Subject: meeting
Name: {PER}
Customer: {PER}, {LOC}
Employer: {ORG}
um so i was talking to {PER} about the you know the new screen
yeah {PER} said that he would uh come by {DATE}
can you call {PER} for me
can you ask {PER} to open the window
is {PER} there
we flew from {LOC} to {LOC} with {PER}
i grew up in {LOC} but my mother is from {LOC}
he used to work for {ORG} before he moved to {LOC}
{PER} and {PER} are getting married in {LOC}
I was told by {PER} from {ORG} that my account is blocked.
who directed the film with {PER}
what movies did {PER} star in
show me films starring {PER} and {PER}
my son {PER} goes to {ORG}
{PER}, could you send me the file?
@support my order from {ORG} never arrived, {PER} promised it for {DATE}
The meeting with {TITLE} {PER} is at {TIME}.
{LOC} is lovely in the spring
Our office in {LOC} is closed on {DATE}.
{PER} ({LOC}) beat {PER} ({LOC}) 6-4 6-2
{LOC} {DATE}
{PER} works at {ORG} as a nurse.
according to {PER}, {ORG} will open a plant in {LOC}
good morning {PER} how are you
thank you {PER} that was great
okay {PER} what do you think
{PER} met {PER} at the {ORG} office in {LOC}.
Contact {PER} or {PER} for details.
I talked to {PER}, {PER} and {PER} yesterday about it.
""".strip().splitlines()
)
PUBLIC_TEMPLATES = tuple(
    line.strip()
    for line in """
Can you open the window
can you open the door please
Could you turn off the light in the kitchen?
Please close the file and start again.
I think we should talk about the price first.
What is the capital of the country?
The Window is open and the Door is closed.
How do I reset my password?
Thank you very much for your help.
Let me know if you have any questions.
Terms and Conditions
Please Read The Instructions Carefully
Yes, that is fine.
Will you grant me one more day, Mark the page and may I go?
The rose in the garden is red and the sky is blue.
we may bill you for the hope and joy of it
OK Thanks
WARNING: do not open the box
The Internet is slow and the TV is broken
I have a Windows PC and an English keyboard.
Is the Doctor in? The Nurse said no.
Open the Settings menu and click Save.
Hello World
Happy Birthday to You
MAC {HEX}:{HEX}:{HEX}:{HEX}:{HEX}:{HEX}
The MAC address is {HEX}-{HEX}-{HEX}-{HEX}-{HEX}-{HEX}.
Order {N}{N} was shipped, tracking number {N}-{N}-{N}.
Call {N}-{N}-{N} or +{N} {N} {N}.
id {HEX}{HEX}{HEX}-{HEX}{HEX}-{HEX}{HEX}
Invoice no. {N}{N} over ${N}.{N}
card {N}{N} {N}{N} {N}{N} {N}{N} exp {N}/{N}
IP {N}.{N}.{N}.{N} port {N}
key sk_live_{HEX}{HEX}{HEX}{HEX}{HEX}{HEX}
IBAN GB{N} {N}{N} {N}{N} {N}{N}
Page {N} of {N}
The score was {N}-{N} after {N} minutes.
I have {N} apples and {N} oranges, that is {N} %.
My SSN is {N}{N}-{N}-{N}{N}
version {N}.{N}.{N} is out
we need {N} people in {N} days
it takes two years and three days
""".strip().splitlines()
)
_DATES = (
    "Monday",
    "tuesday",
    "March 3",
    "5 May 2021",
    "next friday",
    "12/03/2019",
    "the 4th of July",
)
_TIMES = ("3 pm", "half past two", "10:30", "noon", "seven in the morning")
_TITLES = ("Mr.", "Mrs.", "Ms.", "Dr.", "Prof.", "Mr", "Miss", "Sir", "Professor", "Doctor")
_FILLERS: Mapping[str, Callable[[random.Random], str]] = {
    "TITLE": lambda draws: draws.choice(_TITLES),
    "N": lambda draws: str(draws.randrange(10, 100)),
    "HEX": lambda draws: f"{draws.randrange(16, 256):02{draws.choice('xX')}}",
}


def from_templates(size: int, names: Names, draws: random.Random) -> Iterator[Utterance]:
    """Sentences of our own, with names of many cultures."""
    makers: Mapping[str, Callable[[], str]] = {
        "PER": lambda: person(draws.choice(("a", "a b", "a b")), names, draws),
        "LOC": lambda: draws.choice(names["place"]),
        "ORG": lambda: organisation("Acme Foods", names, draws),
        "DATE": lambda: draws.choice(_DATES),
        "TIME": lambda: draws.choice(_TIMES),
    }
    for number in range(size):
        public_one = number % 5 == 4
        template = draws.choice(PUBLIC_TEMPLATES if public_one else TEMPLATES)
        text, spans = "", list[Span]()
        for piece in re.split(r"(\{[A-Z]+\})", template):
            kind = piece[1:-1] if piece.startswith("{") else ""
            made = makers[kind]() if kind in makers else piece
            if kind in _FILLERS:
                made = _FILLERS[kind](draws)
            if kind in makers:
                spans.append(Span(len(text), len(text) + len(made), kind))
            text += made
        yield from_spans(text, spans)


def spoken(utterance: Utterance) -> Utterance:
    """In lower case and without punctuation but apostrophes, as a recogniser writes.

    >>> call = from_spans("Call Ann-Lee, now!", [Span(5, 12, "PER")])
    >>> spoken(call).text, spoken(call).slots
    ('call ann lee now', ('O', 'B-PER', 'I-PER', 'O'))
    """
    text, spans, beyond = "", list[Span](), 0
    for start, end, kind in [*spans_of(utterance), (len(utterance.text),) * 2 + ("",)]:
        text = f"{text} {_bare(utterance.text[beyond:start])}".strip()
        value = _bare(utterance.text[start:end])
        if value:
            begin = len(text) + bool(text)
            text = f"{text} {value}".strip()
            spans.append(Span(begin, begin + len(value), kind))
        beyond = end
    return from_spans(text, spans)


def _bare(text: str) -> str:
    lower = text.lower().replace("’", "'")
    return " ".join(re.sub(r"[^\w'\s]+|(?<!\w)'|'(?!\w)", " ", lower).split())


def training_corpus(data: Path, names: Names, *, all_of_it: bool = True) -> Iterator[Utterance]:
    """Everything to learn from; without the held-out parts if figures are to be measured."""
    held_out = None if all_of_it else False
    draws = random.Random(18)
    corpus: list[Utterance] = []
    for name in SOURCES:
        mine = list(public(data, name, held_out=held_out))
        corpus += mine
        # What is most like text that anybody may have counts most.
        for _ in range({"ewt": 3, "wikigold": 2, "snips": 0}.get(name, 1)):
            corpus += swapped(mine, names, draws)
        if name == "ewt":
            corpus += mine
    corpus += generated(1_500, 1018)
    corpus += from_templates(6_000, names, draws)
    for number, utterance in enumerate(corpus):
        if not utterance.text.strip():
            continue
        yield utterance
        # In lower case all are read again; without punctuation one in three is enough.
        if number % 3 == 0 and (bare := spoken(utterance)).text:
            yield bare
