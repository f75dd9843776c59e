"""Public word lists: names, cities, medicines, and small sets such as digits and months.

All lists were written for this project. Those in `lists/` are ordered by frequency and sampled with
Zipf weights; the small sets are sampled uniformly.
"""

from functools import cache
from importlib import resources

from sottovoce._validate import one_of

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
