"""A small template language for utterances and slot values.

    call {contact}             a word, and a hole named contact
    [call|ring|phone up]       one of these, most frequent first (weights 1, 1/2, 1/3 ...)
    (right|just) now           one of these, or nothing with probability 2/3
    <dial> {contact}           the named part dial, as if it were written here in [ ]
    {date:past}                a hole labelled date with values of another kind
    {digit}{digit}             holes may be joined to each other and to letters

Brackets nest. Several lines are alternatives too, most frequent first, with flatter weights
(`LINES_SHIFT`). A template is parsed once, into a tree of choices. The built-in domains expand it
into all phrases, so that generation only picks phrases and fills holes; custom grammars, which may
have any number of phrases, sample one at a time.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Union

from sottovoce.corpora.synthetic.draws import zipf
from sottovoce.errors import InvalidInput

ABSENT = 2 / 3  # probability that an optional part is omitted
LINES_SHIFT = 3.0  # weights of the lines: 1/4, 1/5, 1/6 ...
MOST_PHRASES = 5_000  # of one line; more is probably a mistake

_SYMBOL = re.compile(r"[\[\]()|]|<\w+>|[^\s\[\]()|<>]+")
_WORD = re.compile(r"(?:\{[\w.:#+]+\}|[a-z0-9'@.:/&-])+")
_GLUED = re.compile(r"[^\s\[(|][\[(<]|[\])>][^\s\])|]")
HOLE = re.compile(r"\{([\w.:#+]+)\}")
_CLOSING = {"[": "]", "(": ")"}

Weighted = dict[str, float]  # phrase -> weight; weights sum to one


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase with `%s` for each hole, and the names of the holes.

    >>> Phrase.of("call {contact} at {phone_number}")
    Phrase(text='call %s at %s', holes=('contact', 'phone_number'))
    """

    text: str
    holes: tuple[str, ...]

    @classmethod
    def of(cls, expanded: str) -> "Phrase":
        return cls(HOLE.sub("%s", expanded), tuple(HOLE.findall(expanded)))


class Choice(NamedTuple):
    """A choice between branches, most frequent first; an optional one is omitted more often."""

    branches: tuple[tuple[Union[str, "Choice"], ...], ...]
    optional: bool = False

    def draw(self, random: Random) -> list[str]:
        """The words of one phrase."""
        if self.optional and random.random() < ABSENT:
            return []
        (branch,) = random.choices(self.branches, zipf(len(self.branches), 0.0))
        words: list[str] = []
        for item in branch:
            words += [item] if isinstance(item, str) else item.draw(random)
        return words

    def holes(self, known: dict[int, set[str]] | None = None) -> set[str]:
        """The names of all holes that a phrase may have; named parts are looked at once."""
        known = {} if known is None else known
        if id(self) not in known:
            found = set[str]()
            for item in (item for branch in self.branches for item in branch):
                found.update(HOLE.findall(item) if isinstance(item, str) else item.holes(known))
            known[id(self)] = found
        return known[id(self)]


class Parts:
    """Named parts of templates, each parsed once, however often it is used."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._parsed: dict[str, Choice] = {}

    def choice(self, name: str, inside: tuple[str, ...]) -> Choice:
        """The part of a name, used inside other parts."""
        if name not in self._texts:
            raise InvalidInput(f"Expected a part named {name!r}, found none.")
        if name in inside:
            raise InvalidInput(f"Expected parts that do not contain themselves, got <{name}>.")
        if name not in self._parsed:
            self._parsed[name] = _Reader(self._texts[name], self, (*inside, name)).read()
        return self._parsed[name]


def read(template: str, parts: Mapping[str, str] | Parts | None = None) -> Choice:
    """The tree of a template.

    >>> read("call {contact} (now)")
    Choice(branches=(('call', '{contact}', Choice(branches=(('now',),), optional=True)),),
           optional=False)
    >>> read("<a>", {"a": "<b>", "b": "now <a>"})
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected parts that do not contain themselves, got <a>.
    """
    return _Reader(template, parts if isinstance(parts, Parts) else Parts(parts or {})).read()


def expand(lines: str, parts: Mapping[str, str] | None = None) -> Weighted:
    """All phrases of a grammar, with their probabilities.

    >>> for phrase, share in expand("[call|ring] {contact} (now)").items():
    ...     print(f"{share:.2f} {phrase}")
    0.44 call {contact}
    0.22 call {contact} now
    0.22 ring {contact}
    0.11 ring {contact} now
    >>> expand("[call {contact}")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected ] in template '[call {contact}', got its end.
    """
    templates = [line.strip() for line in lines.splitlines() if line.strip()]
    weights = zipf(len(templates), LINES_SHIFT)
    known = Parts(parts or {})
    phrases: Weighted = {}
    for template, weight in zip(templates, weights, strict=True):
        for phrase, share in _phrases(read(template, known), template).items():
            phrases[phrase] = phrases.get(phrase, 0.0) + share * weight / sum(weights)
    return phrases


def _phrases(choice: Choice, template: str) -> Weighted:
    weights = zipf(len(choice.branches), 0.0)
    phrases: Weighted = {}
    for branch, weight in zip(choice.branches, weights, strict=True):
        joined: Weighted = {"": 1.0}
        for item in branch:
            more = {item: 1.0} if isinstance(item, str) else _phrases(item, template)
            joined = _join(joined, more, template)
        for phrase, share in joined.items():
            phrases[phrase] = phrases.get(phrase, 0.0) + share * weight / sum(weights)
    if not choice.optional:
        return phrases
    return {"": ABSENT} | {phrase: share * (1 - ABSENT) for phrase, share in phrases.items()}


def _join(left: Weighted, right: Weighted, template: str) -> Weighted:
    if len(left) * len(right) > MOST_PHRASES:
        raise InvalidInput(
            f"Expected at most {MOST_PHRASES} phrases of template {template!r}, got more."
        )
    joined: Weighted = {}
    for head, share in left.items():
        for tail, other in right.items():
            phrase = f"{head} {tail}" if head and tail else head or tail
            joined[phrase] = joined.get(phrase, 0.0) + share * other
    return joined


class _Reader:
    """Recursive-descent parser of one template."""

    def __init__(self, template: str, parts: Parts, inside: tuple[str, ...] = ()) -> None:
        if glued := _GLUED.search(template):
            raise InvalidInput(f"Expected a space inside {glued[0]!r} in template {template!r}.")
        self.template = template
        self.parts = parts
        self.inside = inside
        self.symbols: Iterator[str] = iter(_SYMBOL.findall(template))

    def read(self) -> Choice:
        branches, end = self._alternatives()
        if end:
            raise InvalidInput(f"Expected no {end} in template {self.template!r}, got one.")
        return Choice(branches)

    def _alternatives(self) -> tuple[tuple[tuple[str | Choice, ...], ...], str]:
        """Alternatives up to a closing bracket or the end, and that bracket."""
        branches: list[tuple[str | Choice, ...]] = [()]
        for symbol in self.symbols:
            if symbol in ("]", ")"):
                return tuple(branches), symbol
            if symbol == "|":
                branches.append(())
            else:
                branches[-1] += (self._item(symbol),)
        return tuple(branches), ""

    def _item(self, symbol: str) -> str | Choice:
        if symbol in _CLOSING:
            branches, end = self._alternatives()
            if end != _CLOSING[symbol]:
                raise InvalidInput(
                    f"Expected {_CLOSING[symbol]} in template {self.template!r}, "
                    f"got {end or 'its end'}."
                )
            return Choice(branches, optional=symbol == "(")
        if symbol.startswith("<"):
            return self.parts.choice(symbol[1:-1], self.inside)
        if not _WORD.fullmatch(symbol):
            raise InvalidInput(f"Expected a plain lower-case word, got {symbol!r}.")
        return symbol
