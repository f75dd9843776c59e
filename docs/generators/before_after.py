"""The page of lines before and after: what the default detector finds, and each way to replace it.

Random numbers are seeded and the key is fixed, so that the page can be checked; a release is never
made like this.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sottovoce.deid import Deidentifier, Fit, Guard, Resources, Setting, Vault, detector
from sottovoce.deid.replace.strategies import parse_setting
from sottovoce.privacy.noise import NoiseSource

PAGE = """\
# Before and after

<!-- Made by `make docs`; do not edit. -->

What `sottovoce deid` makes of {count} lines with the detector `fast`. The random numbers are seeded
here so that the page can be made again; yours will differ. Misses and false finds are shown as they
are.
"""


class Section(NamedTuple):
    """Lines, and how their values are replaced."""

    title: str
    lines: Sequence[str]
    setting: Mapping[str, Any]
    per_type: Sequence[str] = ()
    fit: Fit = Fit.FORM
    language: str = "en"


SECTIONS = (
    Section(
        "Surrogates that fit (`--strategy entity`, the default)",
        (
            "Maria Lopez called Tom on Monday at half past three.",
            "MARIA LOPEZ CALLED TOM ON MONDAY",
            "maria lopez called tom on monday",
            "Can you open the window?",
            "The patient, Mr. O'Brien-Kowalski, saw Dr. Müller.",
            "John's and Mary's house is in New York.",
            "The meeting of 2024-03-01 starts at 15:30.",
            "We need thirty minutes, or half an hour.",
            "Write to anna.schmidt@work.org or see https://schmidt.org",
            "She works at Siemens in Munich.",
        ),
        {"strategy": "entity"},
    ),
    Section(
        "Placeholders (`--strategy typed`)",
        (
            "My number is +49 (0)30 1234567, or 01.23.45.67.89.",
            "The card 4111 1111 1111 1111 was charged $5,000.",
            "The server 10.0.0.1 has the MAC 00:1B:44:11:3A:B7.",
            "IBAN DE89 3704 0044 0532 0130 00 please",
            "call me at five five five zero one nine nine",
            "mail john dot smith at mail dot com",
            "he is @johnny_99 and lives at 12 High Street",
            "nothing private in this line",
        ),
        {"strategy": "typed"},
    ),
    Section(
        "Numbers of the same format (`--strategy entity`)",
        (
            "Call 555-0199 or (555) 019-9123.",
            "My passport is AB123456C.",
            "It cost $19.99 at 3:45 pm.",
            "born on 3/11/1984",
        ),
        {"strategy": "entity"},
    ),
    Section(
        "Consistent within a conversation (`--strategy consistent`)",
        (
            "This is Maria Lopez speaking.",
            "Hello Ms. Lopez, is 555-0199 still your number?",
            "Yes, Maria Lopez, 5550199.",
            "Thank you, Maria.",
        ),
        {"strategy": "consistent"},
    ),
    Section(
        "With gender and number (`--fit grammar`)",
        ("Maria said that she saw John.", "Emma and her brother David left."),
        {"strategy": "entity"},
        fit=Fit.GRAMMAR,
    ),
    Section(
        "Mask, hash, encrypt and keep (`--type CARD=mask:last=4`, ...)",
        (
            "The card 4111 1111 1111 1111 is mine.",
            "Call Maria Lopez in London.",
            "Mail anna@work.org on Monday.",
        ),
        {"strategy": "typed"},
        per_type=("CARD=mask:last=4", "PER=hash", "EMAIL=encrypt", "DATE=keep"),
    ),
    Section(
        "German and Spanish (`--language`)",
        (
            "Die Rechnung geht an max.muster@firma.de bis 01.02.2024.",
            "Bitte überweisen Sie auf DE89 3704 0044 0532 0130 00.",
            "Die Nummer ist +49 30 1234567.",
        ),
        {"strategy": "entity"},
        language="de",
    ),
    Section(
        "",
        ("Llame a María al +34 612 345 678 el lunes.", "El correo es ana@correo.es, gracias."),
        {"strategy": "entity"},
        language="es",
    ),
)
GUARDED = (
    "Write a letter to Maria Lopez, 12 High Street, about the 3rd of May.",
    "Add that Maria Lopez can call 555-0199.",
    "Is <PER_1> a name?",
    "Translate it for john@work.org.",
)


def page() -> str:
    """The page."""
    count = sum(len(section.lines) for section in SECTIONS) + len(GUARDED)
    parts = [PAGE.format(count=count)]
    parts += [part for section in SECTIONS for part in _section(section)]
    guard = Guard()
    parts += ["\n## Behind a guard for language models (`Guard`)\n"]
    parts += _table([(line, guard.hide(line)) for line in GUARDED])
    return "\n".join(parts).rstrip() + "\n"


def _section(section: Section) -> list[str]:
    deid = Deidentifier(
        detector=detector("fast", language=section.language),
        setting=Setting(**section.setting),
        per_type=dict(map(parse_setting, section.per_type)),
        resources=Resources(
            vault=Vault(bytes(range(32)), within="corpus"),
            fit=section.fit,
            language=section.language,
        ),
        source=NoiseSource.seeded(18),
    )
    pairs = [(line, deid.release(line).text) for line in section.lines]
    title = [f"\n## {section.title}\n"] if section.title else [""]
    return [*title, *_table(pairs)]


def _table(pairs: Sequence[tuple[str, str]]) -> list[str]:
    rows = [f"| {_cell(before)} | {_cell(after)} |" for before, after in pairs]
    return ["| before | after |", "|---|---|", *rows]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("@", "&#64;")
