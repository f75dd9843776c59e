"""Regular expressions for values that are said in words: "half past three", "the fifth of may".

A table from the word that begins such a value to the expressions to try there; so the expressions
run only where they may match (not at "the" or "in", which are everywhere and tell nothing). Every
repetition is bounded or made of words parted by one blank, hence no expression can take more than
linear time.
"""

import re
from collections.abc import Iterable, Mapping


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ONES = _words("one two three four five six seven eight nine")
TEENS = _words("ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen")
TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")
DIGITS = ("zero", "oh", *ONES)
NUMBERS = (*ONES, *TEENS, *TENS)
MONTHS = _words(
    "january february march april may june july august september october november december "
    "jan feb mar apr jun jul aug sep sept oct nov dec"
)
WEEKDAYS = _words("monday tuesday wednesday thursday friday saturday sunday")
ORDINALS = _words(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth thirtieth"
)
HOLIDAYS = _words("christmas easter thanksgiving halloween hanukkah ramadan diwali")
_NEAR_DAYS = _words(
    "day today tomorrow yesterday tonight next last this new week weeks days months"
)


def _any(words: Iterable[str]) -> str:
    # Longest first, since the first alternative that fits is taken.
    return "(?:" + "|".join(sorted(words, key=len, reverse=True)) + ")"


_HOUR = rf"(?:1[0-2]|[1-9]|{_any([*ONES, 'ten', 'eleven', 'twelve'])})"
_MINUTE = rf"(?:{_any(TENS)}(?:[ -]{_any(ONES)})?|{_any(TEENS)}|oh {_any(ONES)}|[0-5]\d)"
_PART = "(?:in the (?:morning|afternoon|evening)|at night|a\\.?m\\b\\.?|p\\.?m\\b\\.?|[ap] m)"
_DAY = (
    rf"(?:(?:twenty|thirty)[ -]{_any(ORDINALS[:9])}|{_any(ORDINALS)}|"
    r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?)"
)
_YEAR = rf"(?:,? (?:19|20)\d\d|,? (?:nineteen|twenty) {_any(NUMBERS)}(?:[ -]{_any(ONES)})?)"
COUNT = rf"(?:{_any(NUMBERS)}(?:[ -]{_any(ONES)})?)"
_COUNT = rf"(?:{_any(NUMBERS)}(?:[ -]{_any(ONES)})?|an?|\d{{1,4}})"
_SPAN = "(?:minute|hour|day|week|weekend|month|year|summer|winter|spring|autumn|fall)s?"
_DAYPART = "(?:morning|afternoon|evening|night)"
_DIGIT = rf"(?:(?:double|triple) )?{_any(DIGITS)}"


def _rule(expression: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{expression})(?!\w)")


_CLOCK = _rule(
    rf"(?:half|(?:a )?quarter|{_any([*NUMBERS, 'twenty five'])}) (?:minutes )?"
    rf"(?:past|to|after|before) {_HOUR}(?: {_PART})?"
    rf"|{_HOUR} (?:{_MINUTE} )?(?:o'?clock(?: {_PART})?|{_PART})|{_HOUR} {_MINUTE}"
)
_NOON = _rule("noon|midnight|midday")
_MONTH_DAY = _rule(rf"{_any(MONTHS)}\.? (?:the )?{_DAY}{_YEAR}?|{_any(MONTHS)}{_YEAR}")
_MONTH = _rule(_any(month for month in MONTHS[:12] if month not in ("may", "march", "august")))
_DAY_MONTH = _rule(rf"{_DAY}(?: of)? {_any(MONTHS)}{_YEAR}?")
_WEEKDAY = _rule(rf"(?:(?:next|last|this|every|on) )?{_any(WEEKDAYS)}(?: {_DAYPART}| the {_DAY})?")
_RELATIVE = _rule(
    r"day (?:after tomorrow|before yesterday)"
    rf"|(?:today|tomorrow|yesterday)(?: {_DAYPART})?"
    rf"|tonight|(?:next|last|this) (?:{_SPAN}|{_DAYPART}|{_any(MONTHS)}|{_any(HOLIDAYS)})"
    rf"|(?:{_COUNT} )?{_SPAN} ago|{_any(HOLIDAYS)}(?: eve| day)?"
    r"|new year'?s(?: eve| day)?"
)
_MONEY = _rule(
    rf"(?:{_any(NUMBERS)}|hundred|thousand)(?:[ -](?:{_any(NUMBERS)}|hundred|thousand|million|and))"
    r"{0,8} (?:dollars?|euros?|pounds?|cents?|bucks)"
)
_NUMBER = _rule(rf"{_DIGIT}(?: {_DIGIT}){{6,}}")
_CODE = _rule(rf"{_DIGIT}(?: {_DIGIT}){{3,5}}")

_STARTS: tuple[tuple[str, re.Pattern[str], Iterable[str]], ...] = (
    ("PHONE", _NUMBER, ["double", "triple", *DIGITS]),
    ("ID", _CODE, ["double", "triple", *DIGITS]),
    ("MONEY", _MONEY, [*NUMBERS, "hundred", "thousand"]),
    ("DATE", _DAY_MONTH, ["twenty", "thirty", *ORDINALS]),
    ("DATE", _RELATIVE, NUMBERS),
    ("TIME", _CLOCK, ["half", "quarter", *NUMBERS]),
    ("TIME", _NOON, ["noon", "midnight", "midday"]),
    ("DATE", _MONTH_DAY, MONTHS),
    ("DATE", _MONTH, MONTHS),
    ("DATE", _WEEKDAY, ["next", "last", "this", "every", *WEEKDAYS]),
    ("DATE", _RELATIVE, (*_NEAR_DAYS, *HOLIDAYS)),
)

Rules = tuple[tuple[str, re.Pattern[str]], ...]


def _by_first_word() -> Mapping[str, Rules]:
    rules: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for kind, rule, words in _STARTS:
        for word in words:
            rules.setdefault(word, []).append((kind, rule))
    return {word: tuple(found) for word, found in rules.items()}


SPOKEN: Mapping[str, Rules] = _by_first_word()
