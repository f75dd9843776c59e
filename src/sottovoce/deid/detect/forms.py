"""Values whose form is the form of one kind of thing: a MAC address, a key, a number plate.

Every rule has a trigger that is cheap to look for; its expression runs only where that is found.
Repetitions are bounded, or over one class of characters with nothing before them that could match
the same characters, so that the time is linear in the text.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sottovoce.deid.detect.checks import (
    australian_medicare,
    australian_tax,
    french_number,
    german_id_card,
    german_tax_id,
    nhs_number,
    spanish_id,
    verhoeff,
)
from sottovoce.deid.detect.spoken import COUNT

Found = tuple[int, int, str, str]
"""Start, end and type of a value, and the name of the rule that found it."""
Check = Callable[[str], bool]
COUNTRIES = ("US", "UK", "DE", "FR", "ES", "IN", "AU")
"""Whose national numbers and plates have rules of their own."""


class Form(NamedTuple):
    """A type, the name of the rule, its expression, what its text must hold, and a check.

    With `as_written` capitals matter. A group named `value` is the value, without its context.
    A form of one `country` is looked for unless other countries are chosen.
    """

    kind: str
    name: str
    rule: re.Pattern[str]
    trigger: str = ""
    check: Check | None = None
    as_written: bool = False
    country: str = ""


def _form(
    kind: str,
    name: str,
    expression: str,
    trigger: str = "",
    check: Check | None = None,
    *,
    as_written: bool = False,
    country: str = "",
) -> Form:
    rule = re.compile(rf"(?<!\w){expression}(?!\w)")
    return Form(kind, name, rule, trigger, check, as_written, country)


_HEX = "[0-9a-f]"
_STREET = (
    "Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Way|Terrace|Close|"
    "Square|Sq|Highway|Hwy|Crescent|Parkway|Pkwy|Place|Pl|Row|Hill|Gardens"
)
_SECRET = r"(?:user ?name|login|handle|password|passwd|api[ _-]?key|secret|token)"
# One digit at least, which makes all but few texts quick.
WITH_DIGITS: tuple[Form, ...] = (
    _form("ID", "key or token", r"(?:sk|pk|rk|ghp|gho|xox[abprs]|glpat|akia|eyj)[-_]?"
          r"[\w-]{12,300}+(?:\.[\w-]{4,2000}+){0,2}"),
    _form("IP", "MAC address", rf"{_HEX}{{2}}(?:([:-]){_HEX}{{2}})(?:\1{_HEX}{{2}}){{4,6}}"),
    _form("IP", "MAC address", rf"{_HEX}{{4}}\.{_HEX}{{4}}\.{_HEX}{{4}}", "."),
    _form("ID", "UUID", rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}", "-"),
    _form("ID", "crypto address", r"(?:bc1|tb1|ltc1)[02-9ac-hj-np-z]{8,87}|0x[0-9a-f]{40}"),
    _form("ID", "crypto address", r"[13LDXr][1-9A-HJ-NP-Za-km-z]{25,34}", as_written=True),
    _form("ID", "national insurance number", r"[a-ceghj-prtw-z]{2} ?\d\d ?\d\d ?\d\d ?[a-d]",
          country="UK"),
    _form("ID", "Aadhaar", r"\d{4} \d{4} \d{4}", " ", verhoeff, country="IN"),
    _form("ID", "tax number", r"\d\d \d{3} \d{3} \d{3}", " ", german_tax_id, country="DE"),
    _form("ID", "tax file number", r"\d{3} \d{3} \d{3}", " ", australian_tax, country="AU"),
    _form("ID", "Medicare number", r"[2-6]\d{3} \d{5} \d(?:[ /]\d)?", " ", australian_medicare,
          country="AU"),
    _form("ID", "social security number", r"[12] ?\d\d ?\d\d ?\d\d ?\d{3} ?\d{3} ?\d\d", "",
          french_number, country="FR"),
    _form("ID", "DNI or NIE", r"(?:[xyz]\d{7}|\d{8})[ -]?[a-z]", "", spanish_id, country="ES"),
    _form("ID", "identity card", r"[cfghjklmnprtvwxyz][0-9cfghjklmnprtvwxyz]{8}\d", "",
          german_id_card, country="DE"),
    _form("ID", "NHS number", r"nhs(?: number| no\.?)?:? (?P<value>\d{3}[ -]?\d{3}[ -]?\d{4})",
          "nhs", nhs_number, country="UK"),
    _form("ID", "number with its name", r"(?:passport|licen[cs]e|plate|account|policy|member|"
          r"patient|case|badge|employee|ssn|itin|pan|dni|nie|nino|tfn|steuer-?id|ausweis)"
          r"(?: (?:number|no\.?|id))?(?: is)?[:#]? #?"
          r"(?P<value>[a-z]{0,3}\d{3,12}[a-z]{0,2})"),
    _form("ID", "number plate", r"[A-Z]{2}\d\d ?[A-Z]{3}", as_written=True, country="UK"),
    _form("ID", "number plate", r"[A-Z]{2}-\d{3}-[A-Z]{2}", "-", as_written=True, country="FR"),
    _form("ID", "number plate", r"\d{4} [BCDFGHJ-NPR-TV-Z]{3}", " ", as_written=True, country="ES"),
    _form("ID", "number plate", r"[A-ZÄÖÜ]{1,3}-[A-Z]{1,2} ?\d{1,4}[EH]?", "-", as_written=True,
          country="DE"),
    _form("ID", "number plate", r"[A-Z]{2} ?\d{1,2} ?[A-Z]{1,2} ?\d{4}", as_written=True,
          country="IN"),
    _form("ID", "age", r"(?:aged?|age is|age of|age:) (?P<value>\d{1,3})", "age"),
    _form("ID", "age", r"(?P<value>\d{1,3})[ -]years?[ -]old", "year"),
    _form("ID", "age", r"(?P<value>\d{1,3}) ?(?:y/o|yo|yrs? old)", "y"),
    _form("LOC", "coordinates", r"-?\d{1,3}\.\d{3,15}°?,? ?[nsew]?,? ?-?\d{1,3}\.\d{3,15}°? ?"
          r"[nsew]?", "."),
    _form("LOC", "coordinates", r"\d{1,3}° ?\d{1,2}['′](?: ?\d{1,2}(?:\.\d{1,6})?[\"″])? ?[nsew],?"
          r" ?(?:\d{1,3}° ?\d{1,2}['′](?: ?\d{1,2}(?:\.\d{1,6})?[\"″])? ?[nsew])?", "°"),
    _form("LOC", "postcode", r"[a-z]{1,2}\d[a-z\d]? \d[a-z]{2}", country="UK"),
    _form("LOC", "postcode", r"[A-Z]{2} \d{5}(?:-\d{4})?", as_written=True, country="US"),
    _form("ADDRESS", "street", rf"\d{{1,5}}[A-Za-z]?,? (?:[^\W\d_a-z][\w'.-]{{0,20}} ){{1,3}}"
          rf"(?:{_STREET})(?:\.?,? (?:Apt|Apartment|Suite|Ste|Unit|Floor|Flat)\.? ?#?\w{{1,5}})?",
          " ", as_written=True),
    _form("ADDRESS", "street", r"\d{1,5} (?!(?:the|this|that|my|of|down|up|on|in) )[a-z]{1,20} "
          r"(?:[a-z]{1,20} )?(?:street|avenue|ave|blvd|boulevard)", " "),
    _form("ADDRESS", "post box", r"(?:p\.? ?o\.? ?box|unit|apt\.?|suite) #?\d{1,6}"),
    _form("CARD", "bank code", r"(?:bic|swift)(?: code)?(?: is)?:? "
          r"(?P<value>[a-z]{6}[a-z0-9]{2}(?:[a-z0-9]{3})?)", "i"),
)  # fmt: skip
WITHOUT: tuple[Form, ...] = (
    _form("CARD", "bank code", r"(?:bic|BIC|swift|SWIFT|Swift)(?: code)?(?: is)?:? "
          r"(?P<value>[A-Z]{6}[A-Z]{2}(?:[A-Z]{3})?)", as_written=True),
    _form("ID", "age", rf"(?P<value>{COUNT})[ -]years?[ -]old", "year"),
    _form("ID", "user in a path", r"(?:home|users)[\\/](?P<value>[^\s\\/]{1,100}+)(?=[\\/]|\s|$)",
          "s"),
    _form("ID", "handle", r"@\w[\w.]{1,40}(?<!\.)", "@"),
    _form("ID", "secret", _SECRET + r"(?: is)? ?[:=] ?\"?(?P<value>[^\s\"]{3,200}+)\"?", "="),
    _form("ID", "secret", _SECRET + r"(?: is)? ?[:=] ?\"?(?P<value>[^\s\"]{3,200}+)\"?", ":"),
)  # fmt: skip


def forms_in(
    text: str, lower: str, *, digits: bool, countries: frozenset[str] | None = None
) -> Iterator[Found]:
    """What the rules find; `digits` says whether the text has any."""
    chosen: Iterable[Form] = (*WITHOUT, *WITH_DIGITS) if digits else WITHOUT
    if countries is not None:
        chosen = [form for form in chosen if not form.country or form.country in countries]
    return matches(chosen, text, lower)


def matches(forms: Iterable[Form], text: str, lower: str) -> Iterator[Found]:
    """What some rules find in a text and the same in lower case."""
    for form in forms:
        if form.trigger and form.trigger not in lower:
            continue
        for match in form.rule.finditer(text if form.as_written else lower):
            group = "value" if "value" in form.rule.groupindex else 0
            if form.check is None or form.check(match[group]):
                yield (*match.span(group), form.kind, form.name)
