"""Custom recognisers from a file: expressions, lists of values, words of their context.

The keys are those of Presidio's files of recognisers, in TOML or (with the package pyyaml) YAML:

    [[recognizers]]
    name = "badges"
    supported_entity = "ID"
    context = ["badge", "pass"]
    deny_list = ["Project Nightjar"]
    [[recognizers.patterns]]
    name = "five digits"
    regex = "[0-9]{5}"
    score = 0.3

A pattern counts if its score is at least `LEAST_SCORE`; a word of the context near it adds
`CONTEXT_SCORE`. Expressions are those of Python and run as they are: keep repetitions bounded.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce import _validate
from sottovoce.corpora import Span, Utterance
from sottovoce.deid.detect.findings import Finding
from sottovoce.deid.detect.gazetteer import Gazetteer
from sottovoce.deid.detect.labels import TYPES, mapping
from sottovoce.deid.detect.thresholds import Thresholds, checked
from sottovoce.deid.detect.words import WORD
from sottovoce.errors import InvalidInput

LEAST_SCORE = 0.4
CONTEXT_SCORE = 0.35
_CONTEXT_WORDS = 6  # before and after a value
_KEYS = {
    "name", "supported_entity", "supported_entities", "supported_language",
    "supported_languages", "patterns", "context", "deny_list", "type", "enabled",
}  # fmt: skip


@dataclass(frozen=True)
class Pattern:
    """One expression."""

    name: str
    rule: re.Pattern[str]
    score: float


@dataclass(frozen=True)
class Recognizer:
    """Patterns and values of one type."""

    name: str
    type: str
    patterns: tuple[Pattern, ...]
    context: frozenset[str]
    values: Gazetteer | None


class Rules:
    """The recognisers of a file, as a detector.

    >>> pattern = {"name": "digits", "regex": "[0-9]{5}", "score": 0.2}
    >>> badge = {"name": "badge", "supported_entity": "ID", "context": ["badge"]}
    >>> rules = Rules("rules", {"recognizers": [{**badge, "patterns": [pattern]}]})
    >>> [found.reason for found in rules.explain("my badge is 12345, not 3")]
    ['rules: badge, digits, near "badge"']
    >>> rules.explain("12345")
    []
    """

    def __init__(
        self, name: str, data: Mapping[str, Any], thresholds: Thresholds | None = None
    ) -> None:
        self.name = name
        self._data = data
        given = data.get("recognizers")
        if not isinstance(given, list) or not given:
            raise InvalidInput(f"{name}: Expected a list `recognizers`, got {given!r}.")
        self._recognizers = [_recognizer(name, each) for each in given]
        self.thresholds = checked(thresholds or {}, self.types)

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.type for each in self._recognizers))

    def with_thresholds(self, thresholds: Thresholds) -> "Rules":
        """The same rules with the least score that counts for some types."""
        return Rules(self.name, self._data, thresholds)

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        return [
            [Span(found.start, found.end, found.type) for found in self.explain(utterance.text)]
            for utterance in batch
        ]

    def explain(self, text: str) -> list[Finding]:
        """Every value with its score and what it is made of."""
        found: list[Finding] = []
        for each in self._recognizers:
            least = self.thresholds.get(each.type, LEAST_SCORE)
            for pattern in each.patterns:
                for match in pattern.rule.finditer(text):
                    if match.start() == match.end():
                        continue
                    near = _context(text, *match.span(), each.context)
                    score = min(1.0, pattern.score + CONTEXT_SCORE * bool(near))
                    if score >= least:
                        beside = f', near "{near}"' if near else ""
                        reason = f"{self.name}: {each.name}, {pattern.name}{beside}"
                        found.append(Finding(*match.span(), each.type, score, reason))
            if each.values is not None:
                (spans,) = each.values.find([Utterance(tokens=(), slots=(), text=text)])
                reason = f"{self.name}: {each.name}, listed"
                found += [Finding(*span, 1.0, reason) for span in spans]
        return found

    def to_json(self) -> dict[str, Any]:
        told = json.dumps(self._data, sort_keys=True, default=str)
        return {
            "detector": self.name,
            "thresholds": self.thresholds,
            "sha256": hashlib.sha256(told.encode()).hexdigest(),
        }


def read_rules(path: str | Path) -> Rules:
    """The rules of a TOML or YAML file."""
    name = f"rules {Path(path).name}"
    try:
        content = Path(path).read_text(encoding="utf-8")
        if Path(path).suffix == ".toml":
            return Rules(name, tomllib.loads(content))
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"{path}: Expected rules in TOML or YAML, got {problem}.") from None
    try:
        import yaml  # type: ignore[import-untyped,unused-ignore]
    except ModuleNotFoundError:
        raise InvalidInput(
            f"{path}: Expected the package pyyaml to read YAML, found none: pip install pyyaml, "
            "or write the rules in TOML."
        ) from None
    try:
        data = yaml.safe_load(content)
    except yaml.YAMLError as problem:
        raise InvalidInput(f"{path}: Expected rules in YAML, got {problem}.") from None
    if not isinstance(data, dict):
        raise InvalidInput(f"{path}: Expected a mapping with `recognizers`, got {data!r:.40}.")
    return Rules(name, data)


def _recognizer(where: str, given: Any) -> Recognizer:
    if not isinstance(given, dict):
        raise InvalidInput(f"{where}: Expected a recogniser with its keys, got {given!r:.60}.")
    name = str(given.get("name", "unnamed"))
    if unknown := sorted(given.keys() - _KEYS):
        raise InvalidInput(f"{where}: Expected keys of a recogniser in {name}, got {unknown[0]!r}.")
    entity = given.get("supported_entity") or (given.get("supported_entities") or [None])[0]
    kind = mapping("standard").private.get(str(entity))
    if kind is None:
        raise InvalidInput(
            f"{where}: Expected supported_entity of {name} to be one of {', '.join(TYPES)} or a "
            f"name such as PERSON, got {entity!r}."
        )
    patterns = tuple(_pattern(where, name, each) for each in given.get("patterns") or ())
    deny = given.get("deny_list") or ()
    if not patterns and not deny:
        raise InvalidInput(f"{where}: Expected patterns or a deny_list in {name}, got neither.")
    context = frozenset(str(word).lower() for word in given.get("context") or ())
    values = Gazetteer({kind: [str(value) for value in deny]}, name) if deny else None
    return Recognizer(name, kind, patterns, context, values)


def _pattern(where: str, name: str, given: Any) -> Pattern:
    try:
        rule = re.compile(given["regex"])
    except (KeyError, TypeError, re.error) as problem:
        raise InvalidInput(
            f"{where}: Expected a regular expression `regex` in {name}, got {problem!r}."
        ) from None
    score = _validate.probability("score", float(given.get("score", 1.0)))
    return Pattern(str(given.get("name", "pattern")), rule, score)


def _context(text: str, start: int, end: int, context: frozenset[str]) -> str:
    """The word of the context that is nearest to a value; empty for none."""
    if not context:
        return ""
    before = [word[0].lower() for word in WORD.finditer(text, max(0, start - 80), start)]
    after = [word[0].lower() for word in WORD.finditer(text, end, min(len(text), end + 80))]
    near = [*before[::-1][:_CONTEXT_WORDS], *after[:_CONTEXT_WORDS]]
    return next((word for word in near if word in context), "")
