"""Public word lists, such as names, cities, digits and months, and slot values made of them.

All lists were written for this project. Those in `lists/` are ordered by frequency and sampled with
Zipf weights; the small sets are sampled uniformly.
"""

import math
from dataclasses import dataclass
from functools import cache
from importlib import resources

from sottovoce._validate import one_of
from sottovoce.corpora.synthetic.draws import wheel, zipf
from sottovoce.corpora.synthetic.grammar import Phrase, expand
from sottovoce.errors import InvalidInput

FILES = (
    "first_names",
    "last_names",
    "cities",
    "medicines",
    "streets",
    "adjectives",
    "nouns",
    "plurals",
    "symptoms",
    "conditions",
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ONES = _words("one two three four five six seven eight nine")
_TEENS = _words("ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen")
_TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")
_BELOW_HUNDRED = (*_ONES, *_TEENS, *(f"{t} {o}".strip() for t in _TENS for o in ("", *_ONES)))
_ORDINALS = _words(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
_ENDINGS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd"}

SETS: dict[str, tuple[str, ...]] = {
    "digit": tuple("0123456789"),
    "digit_high": tuple("23456789"),
    "digit_word": ("zero", "oh", *_ONES),
    "digit_high_word": _ONES[1:],
    "letter": tuple("abcdefghijklmnopqrstuvwxyz"),
    "weekday": _words("monday tuesday wednesday thursday friday saturday sunday"),
    "month": _words(
        "january february march april may june july august september october november december"
    ),
    "day": tuple(str(n) for n in range(1, 29)),
    "day_th": tuple(f"{n}{_ENDINGS.get(n, 'th')}" for n in range(1, 29)),
    "ordinal": (*_ORDINALS, *(f"twenty {word}" for word in _ORDINALS[:8])),
    "hour": tuple(str(n) for n in range(1, 13)),
    "hour_word": (*_ONES, *_TEENS)[:12],
    "hour_24": tuple(str(n) for n in range(24)),
    "minute": ("00", "05", "10", "15", "20", "25", "30", "35", "40", "45", "50", "55"),
    "minute_word": ("fifteen", "thirty", "forty five", "ten", "twenty", "forty", "oh five"),
    "small": tuple(str(n) for n in range(2, 11)),
    "small_word": (*_ONES, *_TEENS)[1:10],
    "number": tuple(str(n) for n in range(1, 101)),
    "number_word": (*_BELOW_HUNDRED, "a hundred"),
    "house": tuple(str(n) for n in range(1, 400)),
    "decade_word": ("seventies", "eighties", "nineties", "sixties", "fifties", "twenties"),
    "birth_year": tuple(str(n) for n in range(1935, 2021)),
    "recent_year": tuple(str(n) for n in range(1960, 2027)),
    "strength": ("10", "20", "5", "50", "100", "25", "500", "250", "40", "81", "200", "850", "75"),
    "systolic": tuple(str(n) for n in range(98, 172)),
    "diastolic": tuple(str(n) for n in range(58, 106)),
    "weight": tuple(str(n) for n in range(48, 240)),
    "pulse": tuple(str(n) for n in range(48, 130)),
    "glucose": tuple(str(n) for n in range(65, 260)),
}

LEXICONS: tuple[str, ...] = (*FILES, *SETS)


@cache
def lexicon(name: str) -> tuple[str, ...]:
    """One public word list.

    >>> lexicon("medicines")[:3]
    ('aspirin', 'ibuprofen', 'metformin')
    >>> len(lexicon("first_names")) * len(lexicon("last_names")) > 100_000
    True
    """
    one_of("lexicon", name, LEXICONS)
    if name in SETS:
        return SETS[name]
    path = resources.files("sottovoce.corpora.synthetic") / "lists" / f"{name}.txt"
    return tuple(path.read_text(encoding="utf-8").split("\n")[:-1])


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

    A kind of value is a grammar whose holes are word lists. A value is a function of one 64-bit
    number, which, in a mixed radix, selects the phrase and then an entry for each hole. Equal
    numbers give equal values, so a habit of a user is a recurring number (see `stream`).

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
