"""The kinds of slot values of all domains.

Values overlap on purpose, so that a word alone does not determine its slot: `paris` is a city and
a first name, `may` a month and a surname, `call` part of a title.
"""

from sottovoce.corpora.synthetic.kinds.common import AMOUNTS, MESSAGES, PEOPLE
from sottovoce.corpora.synthetic.kinds.health import HEALTH
from sottovoce.corpora.synthetic.kinds.video import VIDEO
from sottovoce.corpora.synthetic.lexicon import Kind

PARTS = {
    "said2": "{digit_word} {digit_word}",
    "count": "[{small_word}|{small}]",
    "full_name": "{first_names} {last_names}",
    "street_kind": "[street|road|avenue|lane|drive|way|court|place|close|boulevard|square]",
    "clock": (
        "[{hour_word}|{hour}] ([am|pm|o'clock|in the morning|in the evening])"
        "|{hour}:{minute} ([am|pm])|[half past|quarter past|quarter to|ten past|twenty to]"
        " {hour_word}|{hour_word} {minute_word} ([am|pm])|{hour_24}:{minute}|noon|midnight"
    ),
    "calendar": (
        "{month} [{ordinal}|{day_th}|{day}]|the [{day_th}|{ordinal}] (of {month})"
        "|{day}/{digit_high}"
    ),
}

KINDS: dict[str, Kind] = PEOPLE | AMOUNTS | MESSAGES | HEALTH | VIDEO
