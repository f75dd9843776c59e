"""A tiny template language for what people say, and for the values that they say.

    call {contact}             a word, and a hole named contact
    [call|ring|phone up]       one of these; the first is the most usual (weights 1, 1/2, 1/3 ...)
    (right|just) now           one of these, or, two times out of three, nothing
    <dial> {contact}           the part called dial, as if it stood here in [ ]
    {date:past}                a hole labelled date that takes its values from another kind
    {digit}{digit}             holes may be glued to each other and to letters

Brackets nest. Several lines are alternatives too, most usual first, with flatter weights
(`LINES_SHIFT`). A template is expanded once into all its phrases; generation only picks phrases and
fills holes, so that nothing is parsed while a corpus is written.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sottovoce.corpora.synthetic.draws import zipf
from sottovoce.errors import InvalidInput

ABSENT = 2 / 3  # share of the utterances that leave an optional part out
LINES_SHIFT = 3.0  # weights of the lines: 1/4, 1/5, 1/6 ...
MOST_PHRASES = 5_000  # of one line; more is a slip of the pen

_SYMBOL = re.compile(r"[\[\]()|]|<\w+>|[^\s\[\]()|<>]+")
_WORD = re.compile(r"(?:\{[\w:]+\}|[a-z0-9'@.:/-])+")
_GLUED = re.compile(r"[^\s\[(|][\[(<]|[\])>][^\s\])|]")
_HOLE = re.compile(r"\{([\w:]+)\}")
_CLOSING = {"[": "]", "(": ")"}

Weighted = dict[str, float]  # phrase -> weight; weights sum to one


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase with `%s` for each hole, and what goes into the holes.

    >>> Phrase.of("call {contact} at {phone_number}")
    Phrase(text='call %s at %s', holes=('contact', 'phone_number'))
    """

    text: str
    holes: tuple[str, ...]

    @classmethod
    def of(cls, expanded: str) -> "Phrase":
        return cls(_HOLE.sub("%s", expanded), tuple(_HOLE.findall(expanded)))


def expand(lines: str, parts: Mapping[str, str] | None = None) -> Weighted:
    """All phrases of a grammar, with the share of each.

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
    phrases: Weighted = {}
    for template, weight in zip(templates, weights, strict=True):
        for phrase, share in _Reader(template, parts or {}).read().items():
            phrases[phrase] = phrases.get(phrase, 0.0) + share * weight / sum(weights)
    return phrases


class _Reader:
    """Recursive descent over one template."""

    def __init__(self, template: str, parts: Mapping[str, str]) -> None:
        if glued := _GLUED.search(template):
            raise InvalidInput(f"Expected a space inside {glued[0]!r} in template {template!r}.")
        self.template = template
        self.parts = parts
        self.symbols: Iterator[str] = iter(_SYMBOL.findall(template))

    def read(self) -> Weighted:
        phrases, end = self._alternatives()
        if end:
            raise InvalidInput(f"Expected no {end} in template {self.template!r}, got one.")
        return phrases

    def _alternatives(self) -> tuple[Weighted, str]:
        """Alternatives up to a closing bracket (or the end), and which one it was."""
        branches: list[Weighted] = [{"": 1.0}]
        end = ""
        for symbol in self.symbols:
            if symbol in ("]", ")"):
                end = symbol
                break
            if symbol == "|":
                branches.append({"": 1.0})
            else:
                branches[-1] = self._join(branches[-1], self._item(symbol))
        weights = zipf(len(branches), 0.0)
        phrases: Weighted = {}
        for branch, weight in zip(branches, weights, strict=True):
            for phrase, share in branch.items():
                phrases[phrase] = phrases.get(phrase, 0.0) + share * weight / sum(weights)
        return phrases, end

    def _item(self, symbol: str) -> Weighted:
        if symbol in _CLOSING:
            phrases, end = self._alternatives()
            if end != _CLOSING[symbol]:
                raise InvalidInput(
                    f"Expected {_CLOSING[symbol]} in template {self.template!r}, "
                    f"got {end or 'its end'}."
                )
            if symbol == "(":
                phrases = {phrase: share * (1 - ABSENT) for phrase, share in phrases.items()}
                phrases = {"": ABSENT, **phrases}
            return phrases
        if symbol.startswith("<"):
            name = symbol[1:-1]
            if name not in self.parts:
                raise InvalidInput(f"Expected a part called {name!r}, got none of that name.")
            return _Reader(self.parts[name], self.parts).read()
        if not _WORD.fullmatch(symbol):
            raise InvalidInput(f"Expected a plain lower-case word, got {symbol!r}.")
        return {symbol: 1.0}

    def _join(self, left: Weighted, right: Weighted) -> Weighted:
        if len(left) * len(right) > MOST_PHRASES:
            raise InvalidInput(
                f"Expected at most {MOST_PHRASES} phrases of template {self.template!r}, got more."
            )
        joined: Weighted = {}
        for head, share in left.items():
            for tail, other in right.items():
                phrase = f"{head} {tail}" if head and tail else head or tail
                joined[phrase] = joined.get(phrase, 0.0) + share * other
        return joined
