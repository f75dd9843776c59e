"""A slot value is a function of one 64-bit number.

A kind of value is a grammar whose holes are word lists: the number, in a mixed radix, selects the
phrase and then an entry for each hole. Equal numbers give equal values, so a habit of a user is a
recurring number (see `people`).
"""

import math
from dataclasses import dataclass

from sottovoce.corpora.synthetic.draws import wheel, zipf
from sottovoce.corpora.synthetic.grammar import Phrase, expand
from sottovoce.corpora.synthetic.lexicon import FILES, lexicon
from sottovoce.errors import InvalidInput

PHRASE_PLACES = 1024  # resolution of the weights of a kind's phrases
WORD_PLACES = 2048  # the same for a word list; each entry has at least one place
LISTS_SHIFT = 10.0  # weights of the entries of a list: 1/11, 1/12, 1/13 ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of value: its grammar, its entity type, and its recurrence within a user.

    A user has about `own` values of this kind and uses one of them with probability `recurrence`,
    otherwise any value.
    """

    grammar: str
    entity: str
    private: bool = False
    own: int = 1
    recurrence: float = 0.0


class Values:
    """The values of a kind, compiled for sampling.

    >>> Values("{first_names} {last_names}").draw(2 * 1024 + 5 * 1024 * 2048)
    'mohammed brown'
    """

    def __init__(self, grammar: str, parts: dict[str, str] | None = None) -> None:
        phrases = wheel(expand(grammar, parts), PHRASE_PLACES)
        compiled = {text: _with_wheels(Phrase.of(text)) for text in dict.fromkeys(phrases)}
        self.phrases = tuple(compiled[text] for text in phrases)

    def draw(self, number: int) -> str:
        phrases = self.phrases
        number, index = divmod(number, len(phrases))
        text, wheels = phrases[index]
        if not wheels:
            return text
        words = []
        for words_of_hole in wheels:
            number, index = divmod(number, len(words_of_hole))
            words.append(words_of_hole[index])
        return text % tuple(words)


def _with_wheels(phrase: Phrase) -> tuple[str, tuple[tuple[str, ...], ...]]:
    wheels = tuple(_wheel_of(name) for name in phrase.holes)
    if math.prod(map(len, wheels)) > 2**64 // (2 * PHRASE_PLACES):
        raise InvalidInput(
            f"Expected a value that 64 bits can encode, got too many holes in {phrase.text!r}."
        )
    return phrase.text, wheels


def _wheel_of(name: str) -> tuple[str, ...]:
    words = lexicon(name)
    if name not in FILES:
        return words
    weights = dict(zip(words, zipf(len(words), LISTS_SHIFT), strict=True))
    return wheel(weights, WORD_PLACES)
