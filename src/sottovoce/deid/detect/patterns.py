"""Values with a form of their own: telephone numbers, e-mail addresses, dates, money, numbers.

The expressions are tried only at places that can begin such a value: a digit, an @, a dot between
words, or one of the first words of `spoken`. Each attempt is bounded, so the time is linear in the
text, whatever the text; nothing is cut short and nothing times out.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sottovoce import _validate
from sottovoce.corpora import Span, Utterance
from sottovoce.deid.detect.findings import Finding
from sottovoce.deid.detect.forms import COUNTRIES, Form, Found, forms_in, matches
from sottovoce.deid.detect.numeric import NUMERIC, iban
from sottovoce.deid.detect.spoken import SPOKEN
from sottovoce.deid.detect.words import lowered

_START = r"(?<!\w)(?:[+(]\d|[$€£¥] ?\d|\d)"
_NUMBER = re.compile(_START)
_NUMBER_OR_NETWORK = re.compile(rf"{_START}|(?<!\w)[0-9a-f]{{0,4}}:[0-9a-f]{{0,4}}:")
_DIGIT = re.compile(r"\d")
_PLAIN_WORD = re.compile(r"(?<![\w'])[a-z]+")
_LOCAL_PART = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._%+-")
_HOST = re.compile(r"@[\w-]+(?:\.[\w-]+)*")
_SAID = re.compile(
    r"\w{1,40}(?: (?:dot|underscore|dash) \w{1,40}){0,4} at \w{1,40}(?: dot \w{1,40}){1,3}(?!\w)"
)
_LINK = re.compile(r"(?:https?://|www\.)\S+")
_SITE = re.compile(
    r"(?<![\w@.-])[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){0,4}"
    r"\.(?:com|org|net|edu|gov|info|example|io|co|uk|de|fr|eu|us)(?!\w)(?:/\S*)?"
)
_TOUCHING = re.compile(r"[a-z]\d|\d[a-z]")
_MIXED = re.compile(r"(?<!\w)[a-z]++\d\w*|(?<!\w)\d++[a-z]\w*")
_ACCOUNT = re.compile(r"(?<!\w)[a-z]{2}\d\d(?: ?[a-z0-9]{4}){2,7}(?: ?[a-z0-9]{1,3})?(?!\w)")
_COLONS = 2
_LEAST_MIXED = 6  # Shorter mixtures (2nd, 4k, b12) are words of the language.


class Patterns:
    """Finds values by their form, in digits or in words, in any case.

    >>> from sottovoce.deid.detect.detector import utterance_of
    >>> texts = ["wake me at half past three", "pay $5 to a.b@c.example", "ring five five five one"]
    >>> for text, spans in zip(texts, Patterns().find([utterance_of(t) for t in texts])):
    ...     print([(text[s.start : s.end], s.type) for s in spans])
    [('half past three', 'TIME')]
    [('$5', 'MONEY'), ('a.b@c.example', 'EMAIL')]
    [('five five five one', 'ID')]
    """

    types = (
        "ADDRESS", "CARD", "DATE", "EMAIL", "ID", "IP", "LOC", "MONEY", "PHONE", "TIME", "URL"
    )  # fmt: skip

    def __init__(
        self,
        countries: Iterable[str] | None = None,
        *,
        language: str = "en",
        forms: Sequence[Form] = (),
    ) -> None:
        """National numbers and plates of these `countries` only; of all by default.

        In another `language` than English, `forms` take the place of what English says in words.
        """
        chosen = None if countries is None else [country.upper() for country in countries]
        for country in chosen or ():
            _validate.one_of("country", country, COUNTRIES)
        self.countries = None if chosen is None else frozenset(chosen)
        self.language, self._forms = language, tuple(forms)

    def with_countries(self, countries: Iterable[str]) -> "Patterns":
        """The same patterns, with the national numbers of these countries only."""
        return Patterns(countries, language=self.language, forms=self._forms)

    @property
    def name(self) -> str:
        """Another language or choice of countries belongs to it: it finds other values."""
        chosen = "" if self.countries is None else f" {','.join(sorted(self.countries))}"
        return f"patterns{'' if self.language == 'en' else f' {self.language}'}{chosen}"

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        return [
            [Span(start, end, kind) for start, end, kind, _ in self._found(each.text)]
            for each in batch
        ]

    def explain(self, text: str) -> list[Finding]:
        """Every value with the rule that found it."""
        return [
            Finding(start, end, kind, 1.0, f"{self.name}: {rule}")
            for start, end, kind, rule in self._found(text)
        ]

    def _found(self, text: str) -> Iterable[Found]:
        lower = lowered(text)
        if self.language != "en":
            return self._foreign(text, lower)
        bare = lower.replace("'", " ")
        if bare.replace(" ", "").isalpha():
            # Nothing but letters: what is said in words is all there can be.
            words = bare.split(" ")
            forms: Iterable[Found] = ()
            if " year" in lower or "bic " in lower or "swift " in lower:
                forms = forms_in(text, lower, digits=False)
            elif " dot " not in lower and SPOKEN.keys().isdisjoint(words):
                return ()
            return (*_spoken(lower, _placed(words)), *_said(lower), *forms)
        plain = lower.replace("’", "'")
        digits = bool(_DIGIT.search(plain))
        forms = forms_in(text, plain, digits=digits, countries=self.countries)
        return (*_said_in_english(plain), *_written(plain), *forms)

    def _foreign(self, text: str, lower: str) -> Iterable[Found]:
        digits = bool(_DIGIT.search(lower))
        return (
            *matches(self._forms, text, lower),
            *_written(lower),
            *forms_in(text, lower, digits=digits, countries=self.countries),
        )

    def to_json(self) -> dict[str, Any]:
        chosen = None if self.countries is None else sorted(self.countries)
        return {"detector": self.name} | ({} if chosen is None else {"countries": chosen})


def _placed(words: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Words that one character parts, with their places."""
    place = 0
    for word in words:
        yield place, word
        place += len(word) + 1


def _said_in_english(text: str) -> Iterator[Found]:
    if not SPOKEN.keys().isdisjoint(_PLAIN_WORD.findall(text)):
        yield from _spoken(
            text, ((match.start(), match[0]) for match in _PLAIN_WORD.finditer(text))
        )
    yield from _said(text)


def _written(text: str) -> Iterator[Found]:
    if _DIGIT.search(text) or "::" in text:
        yield from _numbers(text)
        if _TOUCHING.search(text):
            yield from _mixtures(text)
    if "@" in text:
        yield from _addresses(text)
    if "http" in text or "www." in text:
        yield from ((*match.span(), "URL", "link") for match in _LINK.finditer(text))
    if "." in text:
        yield from ((*match.span(), "URL", "site") for match in _SITE.finditer(text))


def _mixtures(text: str) -> Iterator[Found]:
    """Letters and digits in one word. An account begins with two letters and two digits."""
    for match in _MIXED.finditer(text):
        if match.end() - match.start() >= _LEAST_MIXED:
            yield (*match.span(), "ID", "letters and digits")
    for match in _ACCOUNT.finditer(text):
        if iban(match[0]):
            yield (*match.span(), "CARD", "IBAN")


def _numbers(text: str) -> Iterator[Found]:
    beyond = 0
    # Of the networks some begin with a letter or a colon, and all have two colons at least.
    starts = _NUMBER if text.count(":") < _COLONS else _NUMBER_OR_NETWORK
    for match in starts.finditer(text):
        start = match.start()
        if start < beyond:
            continue
        for kind, name, rule, check in NUMERIC:
            value = rule.match(text, start)
            if value and (check is None or check(value[0])):
                beyond = value.end()
                yield start, beyond, kind, name
                break


def _spoken(text: str, words: Iterable[tuple[int, str]]) -> Iterator[Found]:
    beyond, rules_of = 0, SPOKEN.get
    for place, word in words:
        rules = rules_of(word)
        if rules is None or place < beyond:
            continue
        for kind, rule in rules:
            value = rule.match(text, place)
            if value:
                beyond = value.end()
                yield place, beyond, kind, "said in words"
                break


def _said(text: str) -> Iterator[Found]:
    """E-mail addresses in words."""
    if " dot " in text:
        yield from ((*match.span(), "EMAIL", "said in words") for match in _SAID.finditer(text))


def _addresses(text: str) -> Iterator[Found]:
    """From every @ to the left and to the right, so that no length is too long."""
    at = text.find("@")
    while at >= 0:
        start = at
        while start and (text[start - 1] in _LOCAL_PART or text[start - 1].isalnum()):
            start -= 1
        host = _HOST.match(text, at)
        if host and start < at:
            yield start, host.end(), "EMAIL", "e-mail"
        at = text.find("@", at + 1)
