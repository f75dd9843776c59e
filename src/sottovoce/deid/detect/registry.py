"""Detectors by name, as the command line writes them: `fast`, `patterns+gazetteer`, a file."""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from sottovoce._registry import Registry
from sottovoce.corpora.synthetic import lexicon
from sottovoce.deid.detect.combination import Combination
from sottovoce.deid.detect.crf.tagger import Tagger
from sottovoce.deid.detect.detector import Detector, Gold, fingerprint, types_of
from sottovoce.deid.detect.gazetteer import Gazetteer
from sottovoce.deid.detect.labels import TYPES, LabelMap, mapping
from sottovoce.deid.detect.language.guard import LanguageGuard
from sottovoce.deid.detect.languages import ENGLISH, LANGUAGES, Language
from sottovoce.deid.detect.patterns import Patterns
from sottovoce.deid.detect.rules import read_rules
from sottovoce.deid.detect.thresholds import Thresholds
from sottovoce.errors import InvalidInput

Made = Callable[[LabelMap | None], Detector | Sequence[Detector]]
"""What makes a detector; it is given the mapping of labels, which only `gold` needs."""


@cache
def _public_gazetteer() -> Gazetteer:
    people = {*lexicon("first_names"), *lexicon("last_names")}
    return Gazetteer(
        {
            "LOC": lexicon("cities"),
            "PER": sorted(people),
            "MEDICAL": (*lexicon("medicines"), *lexicon("conditions"), *lexicon("symptoms")),
        }
    )


_ENGLISH = ("fast", "accurate", "assistant", "tagger")
"""Detectors with a model of English."""
DEFAULT = "fast"
"""For English that nobody prepared, spoken or written; `assistant` is for the built-in domains."""
DETECTORS: Registry[Made] = Registry(
    "detector",
    {
        "gold": lambda labels: Gold(labels or mapping("standard")),
        "patterns": lambda labels: Patterns(),
        "gazetteer": lambda labels: _public_gazetteer(),
        "fast": lambda labels: (Tagger.shipped("general"), Patterns()),
        "accurate": "sottovoce.deid.detect.minilm.detector:accurate",  # needs the extra bert
        "assistant": lambda labels: (Tagger.shipped(), Patterns()),
        # What `assistant` was called; manifests and statements name it so.
        "tagger": lambda labels: (Tagger.shipped(), Patterns()),
    },
    group="sottovoce.detectors",
)


def detector(
    name: str,
    labels: LabelMap | None = None,
    *,
    caution: float | None = None,
    thresholds: Thresholds | None = None,
    allow: Iterable[str] = (),
    language: str = ENGLISH,
    countries: Iterable[str] | None = None,
) -> Combination:
    """The detectors of a name, joined by `+`. The taggers come with the patterns.

    `caution` and `thresholds` (by type) are those of the taggers among them (see `Tagger`); by
    default each has its own. Values of `allow` stay in the text. `countries` are those whose
    national numbers are looked for.

    Besides the names in `DETECTORS` a part may be the file of a tagger, a list of values (a text
    file of `type<TAB>value` lines), or a file of rules (see `rules`).

    >>> detector("fast").name, detector("assistant").name, detector("gazetteer+patterns").name
    ('general+patterns', 'tagger+patterns', 'gazetteer+patterns')
    >>> detector("fast", language="de").name
    'names de+patterns de'
    >>> detector("magic")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected a detector (gold, patterns, gazetteer, fast, accurate,
    assistant, tagger) or a file, got 'magic'.
    """
    chosen = LANGUAGES.get(language)
    found: list[Detector] = []
    for part in name.split("+"):
        if part not in DETECTORS:
            found.append(_from_file(part))
        elif chosen is not None and part != "gold":
            found += _of_language(chosen, part)
        else:
            made = DETECTORS.get(part)(labels)
            found += made if isinstance(made, Sequence) else [made]
    if caution is not None:
        found = _each(found, "with_caution", caution, f"a tagger with a caution, got {name!r}")
    if thresholds:
        found = _each(found, "with_thresholds", thresholds, f"a tagger, got the detector {name!r}")
        _known_types(thresholds, found)
    if countries is not None:
        found = _each(found, "with_countries", [*countries], f"patterns, got {name!r}")
    # By what they are, not by what they are called: two files may have the same name.
    unique = {fingerprint(part): part for part in found}
    guarded = chosen is not None or not set(_ENGLISH).isdisjoint(name.split("+"))
    guard = LanguageGuard(language) if guarded else None
    return Combination(list(unique.values()), allow=allow, guard=guard)


def _of_language(language: Language, part: str) -> Sequence[Detector]:
    offered = language.detectors()
    if part not in offered:
        raise InvalidInput(
            f"Expected a detector of {language.name} ({', '.join(offered)}, gold), got {part!r}."
        )
    return offered[part]()


def _each(found: list[Detector], method: str, value: Any, expected: str) -> list[Detector]:
    """The detectors with a setting, where they have it; one at least has to."""
    if not any(hasattr(each, method) for each in found):
        raise InvalidInput(f"Expected {expected}.")
    return [getattr(each, method)(value) if hasattr(each, method) else each for each in found]


def _known_types(thresholds: Thresholds, found: Iterable[Detector]) -> None:
    known = {
        kind for each in found if hasattr(each, "with_thresholds") for kind in types_of(each) or ()
    }
    for kind in thresholds:
        if kind not in known:
            raise InvalidInput(
                f"Expected a threshold for one of {', '.join(sorted(known)) or 'no type'}, "
                f"got one for {kind!r}."
            )


def _from_file(path: str) -> Detector:
    if not Path(path).is_file():
        raise InvalidInput(f"Expected a detector ({', '.join(DETECTORS)}) or a file, got {path!r}.")
    if Path(path).suffix in (".txt", ".tsv"):
        return Gazetteer(_values(path), f"gazetteer {Path(path).name}")
    if Path(path).suffix in (".toml", ".yaml", ".yml"):
        return read_rules(path)
    if Path(path).suffix == ".safetensors":
        # By its name, so that torch is loaded for those who use it only.
        made = importlib.import_module("sottovoce.deid.detect.minilm.detector").Minilm
        return cast(Detector, made(path, f"adapter {Path(path).name}"))
    return Tagger.load(path)


def _values(path: str) -> Mapping[str, list[str]]:
    try:
        # A mark that some editors put at the start would become part of the first type.
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"{path}: Expected a list of values in UTF-8, got {problem}.") from None
    values: dict[str, list[str]] = {}
    for number, line in enumerate(lines, 1):
        kind, tab, value = line.partition("\t")
        if not (kind and tab and value.strip()):
            raise InvalidInput(
                f"{path}: Expected a type, a tab and a value at line {number}, got {line[:40]!r}."
            )
        if kind not in TYPES:
            raise InvalidInput(
                f"{path}: Expected one of the types {', '.join(TYPES)} at line {number}, got "
                f"{kind[:40]!r}."
            )
        values.setdefault(kind, []).append(value)
    if not values:
        raise InvalidInput(f"{path}: Expected a list of values, got an empty file.")
    return values
