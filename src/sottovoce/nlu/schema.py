"""The labels of a domain: intents, slot types, and the slots allowed for each intent (ontology).

A schema is either declared by the developer of the assistant or inferred from data. No guarantee
covers a schema inferred from private data, and `Schema.uncovered` states that.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from sottovoce.corpora import OUTSIDE, Utterance, read
from sottovoce.corpora.formats import SUFFIXES
from sottovoce.errors import InvalidInput

FILE = "labels.json"


@dataclass(frozen=True)
class Schema:
    """All labels of a model.

    `slots_of` maps intents to their allowed slot types; if None, every intent allows all of them.

    >>> schema = Schema(intents=("call",), slot_types=("who",), slots_of=None, declared=True)
    >>> schema.tags
    ('O', 'B-who', 'I-who')
    >>> schema.tag_numbers(["O", "B-who"])
    [0, 1]
    >>> schema.intent_number("text")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected one of the 1 intents of the schema, got 'text'.
    """

    intents: tuple[str, ...]
    slot_types: tuple[str, ...]
    slots_of: Mapping[str, frozenset[str]] | None
    declared: bool

    def __post_init__(self) -> None:
        if not self.intents:
            raise InvalidInput("Expected at least one intent in the schema, got none.")
        for what, names in ("intent", self.intents), ("slot type", self.slot_types):
            if len(set(names)) != len(names):
                raise InvalidInput(f"Expected every {what} of the schema once, got a duplicate.")
        if "" in self.slot_types:
            raise InvalidInput("Expected slot types with a name, got an empty name.")
        for intent, types in (self.slots_of or {}).items():
            if intent not in self.intents:
                raise InvalidInput(f"Expected slots_of to name known intents, got {intent!r}.")
            if unknown := sorted(types - set(self.slot_types)):
                raise InvalidInput(f"Expected known slot types for {intent!r}, got {unknown[0]!r}.")

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """O, then B- and I- of each slot type."""
        return (OUTSIDE, *(f"{p}-{kind}" for kind in self.slot_types for p in "BI"))

    @cached_property
    def _intent_numbers(self) -> dict[str, int]:
        return {intent: number for number, intent in enumerate(self.intents)}

    @cached_property
    def _tag_numbers(self) -> dict[str, int]:
        return {tag: number for number, tag in enumerate(self.tags)}

    def intent_number(self, intent: str) -> int:
        try:
            return self._intent_numbers[intent]
        except KeyError:
            raise InvalidInput(
                f"Expected one of the {len(self.intents)} intents of the schema, got {intent!r}."
            ) from None

    def tag_numbers(self, slots: Sequence[str]) -> list[int]:
        try:
            return [self._tag_numbers[slot] for slot in slots]
        except KeyError as problem:
            raise InvalidInput(
                f"Expected one of the {len(self.tags)} slot labels of the schema, "
                f"got {problem.args[0]!r}."
            ) from None

    def allowed(self) -> list[list[bool]]:
        """For every intent and tag, whether the ontology allows the tag for the intent."""
        if self.slots_of is None:
            return [[True] * len(self.tags) for _ in self.intents]
        everything = frozenset(self.slot_types)
        rows = []
        for intent in self.intents:
            types = self.slots_of.get(intent, everything)
            rows.append([tag == OUTSIDE or tag[2:] in types for tag in self.tags])
        return rows

    def fits(self) -> Callable[[Utterance], bool]:
        """A predicate: whether the schema contains and allows the labels of an utterance."""
        allowed = {
            intent: {tag for tag, fits in zip(self.tags, row, strict=True) if fits}
            for intent, row in zip(self.intents, self.allowed(), strict=True)
        }
        nothing: set[str] = set()

        def fits(utterance: Utterance) -> bool:
            tags = allowed.get(utterance.intent, nothing)
            return bool(tags) and tags.issuperset(utterance.slots)

        return fits

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Statements for the guarantee about what was inferred from private data."""
        if self.declared:
            return ()
        and_ontology = "" if self.slots_of is None else ", and which slots occur with which intent"
        return (f"the names of intents and slots{and_ontology}, read off the private data",)

    @classmethod
    def of(
        cls, utterances: Iterable[Utterance], *, declared: bool = False, ontology: bool = True
    ) -> Self:
        """The labels that occur in the utterances, in alphabetical order.

        >>> call = Utterance(tokens=("call", "mum"), slots=("O", "B-who"), intent="call")
        >>> Schema.of([call]).slots_of
        {'call': frozenset({'who'})}
        """
        found: dict[str, set[str]] = {}
        for utterance in utterances:
            types = found.setdefault(utterance.intent, set())
            types.update(slot[2:] for slot in utterance.slots if slot != OUTSIDE)
        intents = tuple(sorted(found))
        slots_of = {intent: frozenset(found[intent]) for intent in intents}
        return cls(
            intents=intents,
            slot_types=tuple(sorted(set().union(*found.values()))),
            slots_of=slots_of if ontology else None,
            declared=declared,
        )

    def to_json(self) -> dict[str, Any]:
        slots_of = self.slots_of
        return {
            "intents": list(self.intents),
            "slot_types": list(self.slot_types),
            "slots_of": slots_of and {intent: sorted(slots_of[intent]) for intent in slots_of},
            "declared": self.declared,
        }

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Read a schema; one without the key "declared" (written by hand) counts as declared.

        >>> Schema.from_json({"intents": ["call"], "slot_types": ["who"]}).declared
        True
        """
        if not isinstance(data, Mapping):
            raise InvalidInput("Expected a schema: a JSON object with intents and slot_types.")
        slots_of = data.get("slots_of")
        if slots_of is not None and not isinstance(slots_of, Mapping):
            raise InvalidInput("Expected slots_of to map intents to lists of slot types.")
        return cls(
            intents=_names(data.get("intents"), "intents"),
            slot_types=_names(data.get("slot_types"), "slot_types"),
            slots_of=None
            if slots_of is None
            else {
                intent: frozenset(_names(types, f"slots_of {intent}"))
                for intent, types in slots_of.items()
            },
            declared=bool(data.get("declared", True)),
        )

    @classmethod
    def load(cls, path: str | Path, *, declared: bool = True) -> Self:
        """A schema from a labels.json, a run folder, or the labels of a corpus file or folder.

        The labels of a corpus count as declared unless `declared` is False.
        """
        path = Path(path)
        if (path / FILE).is_file():
            path = path / FILE
        if path.suffix.lower() == ".json":
            return cls.from_json(_read_json(path))
        files = _corpora(path) if path.is_dir() else [path]
        return cls.of((u for file in files for u in read(file)), declared=declared)


def _names(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidInput(f"Expected {what} of a schema to be a list of names.")
    return tuple(value)


def _read_json(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"Expected a schema at {path}, found nothing there.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"Expected JSON in {path}, but {problem}.") from problem


def _corpora(folder: Path) -> list[Path]:
    found = [
        path
        for path in sorted(folder.iterdir())
        if Path(path.name.lower().removesuffix(".gz")).suffix in SUFFIXES and path.is_file()
    ]
    if not found:
        raise InvalidInput(f"Expected {FILE} or corpus files in {folder}, found neither.")
    return found
