"""Sample utterances from a custom grammar, written before there are any users.

A grammar is a TOML file: the kind of value of each slot, the values of each kind, named parts of
templates, and the templates of each intent with its weight (see `grammar` for the syntax of
templates). An intent may override `slots`. The utterances are invented, so training on them costs
no privacy, and private training can start from such a model.

    [slots]
    who = "person"

    [values]
    person = '''
    mum
    [john|mary] {last_names}
    '''

    [intents.call]
    weight = 3
    lines = '''
    [call|ring] {who} (please)
    '''
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from sottovoce import _validate
from sottovoce.corpora.records import OUTSIDE, Utterance
from sottovoce.corpora.synthetic.carriers import agree
from sottovoce.corpora.synthetic.draws import zipf
from sottovoce.corpora.synthetic.grammar import HOLE, LINES_SHIFT, Choice, Parts, read
from sottovoce.corpora.synthetic.kinds import KINDS, PARTS
from sottovoce.corpora.synthetic.lexicon import LEXICONS, LISTS_SHIFT, lexicon
from sottovoce.errors import InvalidInput

TRIES = 1000
GRAMMAR = ".toml"
"""File suffix of grammars."""


@dataclass(frozen=True)
class Lines:
    """Templates, sampled by weight, most frequent first."""

    templates: tuple[Choice, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, given: object, parts: Parts, shift: float) -> "Lines":
        """Templates from a string with one per line, or from a list."""
        each = given.splitlines() if isinstance(given, str) else given
        if not isinstance(each, list) or not all(isinstance(line, str) for line in each):
            raise InvalidInput(f"Expected templates, a string or a list of strings, got {given!r}.")
        lines = [line for line in each if line.strip()]
        if not lines:
            raise InvalidInput("Expected at least one template, got none.")
        return cls(tuple(read(line, parts) for line in lines), tuple(zipf(len(lines), shift)))

    def draw(self, random: Random) -> list[str]:
        """The words of one non-empty phrase."""
        for _ in range(TRIES):  # a template of optional parts may give an empty phrase
            (template,) = random.choices(self.templates, self.weights)
            if words := template.draw(random):
                return words
        raise InvalidInput("Expected templates with words, got optional parts only.")

    def holes(self) -> set[str]:
        known: dict[int, set[str]] = {}
        return set().union(*(template.holes(known) for template in self.templates))


class Samples:
    """A grammar of sample utterances.

    >>> samples = Samples({
    ...     "slots": {"who": "person"},
    ...     "values": {"person": "mum"},
    ...     "intents": {"call": {"lines": "call {who}"}},
    ... })
    >>> [drawn] = samples.utterances(1)
    >>> drawn.text, drawn.slots, drawn.intent
    ('call mum', ('O', 'B-who'), 'call')
    """

    def __init__(self, grammar: Mapping[str, Any]) -> None:
        tables = all(isinstance(table, dict) for table in grammar.values())
        if grammar.keys() - {"slots", "values", "parts", "intents"} or not tables:
            raise InvalidInput(
                "Expected the tables slots, values, parts and intents in a grammar, got "
                f"{', '.join(sorted(grammar))}."
            )
        if not grammar.get("intents"):
            raise InvalidInput("Expected at least one table such as [intents.call], got none.")
        parts, shared = (_texts(name, grammar.get(name, {})) for name in ("parts", "slots"))
        parsed = Parts(parts)
        kinds = _KindsOfValues(grammar.get("values", {}), parsed)
        self._intents = {
            name: _Intent(name, given, shared, parsed, kinds)
            for name, given in grammar["intents"].items()
        }
        self._weights = [intent.weight for intent in self._intents.values()]

    @classmethod
    def load(cls, path: str | Path) -> "Samples":
        """Read a grammar from a TOML file."""
        try:
            return cls(tomllib.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            raise InvalidInput(f"Expected a grammar in {path}, but {problem}.") from problem
        except InvalidInput as problem:
            raise InvalidInput(f"{path}: {problem}") from problem

    def utterances(self, size: int, seed: int = 0) -> Iterator[Utterance]:
        """`size` utterances; the same seed gives the same ones, and a smaller size a prefix."""
        _validate.at_least_one("size", size)
        random = Random(seed)
        intents = list(self._intents)
        for number in range(size):
            (intent,) = random.choices(intents, self._weights)
            tokens, slots = self._intents[intent].draw(random)
            yield Utterance(tokens=tokens, slots=slots, intent=intent, id=f"sample-{number:09d}")


def _texts(what: str, table: Mapping[str, object]) -> dict[str, str]:
    texts = {name: text for name, text in table.items() if isinstance(text, str)}
    for name in table.keys() - texts.keys():
        raise InvalidInput(f"Expected a string for {name} in {what}, got {table[name]!r}.")
    return texts


class _KindsOfValues:
    """The values of each kind, from the grammar or from the built-in domains; parsed once."""

    def __init__(self, own: Mapping[str, object], parts: Parts) -> None:
        self._own, self._parts = own, parts
        self._known: dict[str, Lines] = {}

    def of(self, slot: str, kind: str) -> Lines:
        if kind not in self._known:
            if kind in self._own:
                self._known[kind] = lines = Lines.of(self._own[kind], self._parts, LISTS_SHIFT)
                for name in lines.holes():
                    _validate.one_of(f"a hole in the values of {kind}", name, LEXICONS)
            elif kind in KINDS:
                self._known[kind] = Lines.of(KINDS[kind].grammar, Parts(PARTS), LISTS_SHIFT)
            else:
                raise InvalidInput(
                    f"Expected the kind {kind!r} of slot {slot} in [values], got none."
                )
        return self._known[kind]


class _Intent:
    """The templates and slot values of one intent."""

    def __init__(
        self,
        name: str,
        given: Mapping[str, Any],
        shared: Mapping[str, str],
        parts: Parts,
        kinds: _KindsOfValues,
    ) -> None:
        weight = given.get("weight", 1)
        if not isinstance(weight, int | float):
            raise InvalidInput(f"Expected a number as weight of intent {name}, got {weight!r}.")
        _validate.positive(f"the weight of intent {name}", weight)
        self.weight = float(weight)
        self._lines = Lines.of(given.get("lines", ""), parts, LINES_SHIFT)
        slots = {**shared, **_texts(f"the slots of intent {name}", given.get("slots", {}))}
        holes = sorted(self._lines.holes())
        for slot in holes:
            if slot not in slots:
                raise InvalidInput(f"Expected {{{slot}}} of intent {name} in [slots], got none.")
        self._values = {slot: kinds.of(slot, slots[slot]) for slot in holes}

    def draw(self, random: Random) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Tokens and their labels."""
        tokens: list[str] = []
        labels: list[str] = []
        for word in self._lines.draw(random):
            hole = HOLE.search(word)
            if hole is None:
                tokens.append(word)
                labels.append(OUTSIDE)
                continue
            value = HOLE.sub(lambda found: self._value(found[1], random), word).split(" ")
            tokens += value
            labels += [f"B-{hole[1]}", *[f"I-{hole[1]}"] * (len(value) - 1)]
        return tuple(agree(" ".join(tokens)).split(" ")), tuple(labels)

    def _value(self, slot: str, random: Random) -> str:
        """A slot value; its holes are filled from the built-in word lists."""
        words = " ".join(self._values[slot].draw(random))
        return HOLE.sub(lambda found: random.choice(lexicon(found[1])), words)
