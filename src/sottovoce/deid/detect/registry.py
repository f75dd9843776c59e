"""Detectors by name, as the command line writes them: `fast`, `patterns+gazetteer`, a file."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from sottovoce._registry import Registry
from sottovoce.corpora.synthetic import lexicon
from sottovoce.deid.detect.combination import Combination
from sottovoce.deid.detect.crf.tagger import Tagger
from sottovoce.deid.detect.detector import Detector, Gold, fingerprint
from sottovoce.deid.detect.gazetteer import Gazetteer
from sottovoce.deid.detect.labels import TYPES, LabelMap, mapping
from sottovoce.deid.detect.patterns import Patterns
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


DEFAULT = "fast"
"""For English that nobody prepared, spoken or written; `assistant` is for the built-in domains."""
DETECTORS: Registry[Made] = Registry(
    "detector",
    {
        "gold": lambda labels: Gold(labels or mapping("standard")),
        "patterns": lambda labels: Patterns(),
        "gazetteer": lambda labels: _public_gazetteer(),
        "fast": lambda labels: (Tagger.shipped("general"), Patterns()),
        "assistant": lambda labels: (Tagger.shipped(), Patterns()),
        # What `assistant` was called; manifests and statements name it so.
        "tagger": lambda labels: (Tagger.shipped(), Patterns()),
    },
    group="sottovoce.detectors",
)


def detector(
    name: str, labels: LabelMap | None = None, *, caution: float | None = None
) -> Combination:
    """The detectors of a name, joined by `+`. The taggers come with the patterns.

    `caution` is that of the taggers among them (see `Tagger`); by default each has its own.

    Besides the names in `DETECTORS` a part may be the file of a tagger, or a list of values: a text
    file of `type<TAB>value` lines.

    >>> detector("fast").name, detector("assistant").name, detector("gazetteer+patterns").name
    ('general+patterns', 'tagger+patterns', 'gazetteer+patterns')
    >>> detector("magic")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected a detector (gold, patterns, gazetteer, fast, assistant,
    tagger) or a file, got 'magic'.
    """
    found: list[Detector] = []
    for part in name.split("+"):
        if part in DETECTORS:
            made = DETECTORS.get(part)(labels)
            found += made if isinstance(made, Sequence) else [made]
        else:
            found.append(_from_file(part))
    if caution is not None:
        if not any(isinstance(each, Tagger) for each in found):
            raise InvalidInput(f"Expected a tagger with a caution, got the detector {name!r}.")
        found = [each.with_caution(caution) if isinstance(each, Tagger) else each for each in found]
    # By what they are, not by what they are called: two files may have the same name.
    unique = {fingerprint(part): part for part in found}
    return Combination(list(unique.values()))


def _from_file(path: str) -> Detector:
    if not Path(path).is_file():
        raise InvalidInput(f"Expected a detector ({', '.join(DETECTORS)}) or a file, got {path!r}.")
    if Path(path).suffix in (".txt", ".tsv"):
        return Gazetteer(_values(path), f"gazetteer {Path(path).name}")
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
