"""Facts: what a mechanism really did, written down by the code that did it.

A fact knows nothing of epsilon. It answers three questions for a relation of neighbours: what loss
it causes (`losses`), why it may not be vouched for at all (`objections`), and what has to be true
outside of it (`assumptions`). Facts are immutable, comparable and JSON both ways, so that equal
steps of a run collapse into one ledger entry with a count.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar

from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants.losses import Loss
from sottovoce.privacy.guarantee import SEEDED_STAMP, Notion, Relation, Unit

_KINDS: dict[str, type["Fact"]] = {}


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One executed release.

    `pool` names a family of releases among which a unit's whole contribution is bounded once: the
    disjoint batches of one epoch, increments of counts, a lifetime cap. Of a pool only the worst
    member counts.
    """

    unit: Unit
    pool: str | None = None
    seeded: bool = False

    kind: ClassVar[str]
    notion: ClassVar[Notion] = Notion.DP

    def __init_subclass__(cls) -> None:
        _KINDS[cls.kind] = cls

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        """What one execution can reveal between neighbours, with counts."""
        raise AssertionError(f"{type(self).__name__} states no loss")

    def objections(self, relation: Relation) -> list[str]:
        """Why no epsilon may be stated; empty if there is none."""
        return []

    def why_infinite(self) -> str:
        """What to say where the loss has no bound at the wanted delta."""
        return "a release without noise can be told apart with certainty"

    def assumptions(self, relation: Relation) -> list[str]:
        return [SEEDED_STAMP] if self.seeded else []

    def to_json(self) -> dict[str, Any]:
        """Every field that differs from its default, under the fact's kind."""
        defaults = {field.name: field.default for field in fields(self)}
        return {"kind": self.kind} | {
            name: value for name, value in asdict(self).items() if value != defaults[name]
        }


def fact_from_json(data: Mapping[str, Any]) -> Fact:
    """Read a fact back; what its type does not know is refused.

    >>> from sottovoce.privacy.facts import BoundedRelease
    >>> fact = BoundedRelease(unit=Unit.TOKEN, mechanism="response", epsilon=1.0)
    >>> fact_from_json(fact.to_json()) == fact
    True
    """
    kind = _KINDS.get(data.get("kind", ""))
    if kind is None:
        raise InvalidInput(
            f"Expected a fact of kind {', '.join(_KINDS)}, got {data.get('kind')!r}."
        )
    known = {field.name: field.type for field in fields(kind)}
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name == "kind":
            continue
        if name not in known:
            raise InvalidInput(f"Expected no field {name!r} in a fact of kind {kind.kind}.")
        values[name] = _decoded(known[name], value)
    try:
        return kind(**values)
    except TypeError as problem:
        raise InvalidInput(f"A fact of kind {kind.kind} is incomplete: {problem}.") from problem


def _decoded(declared: Any, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(declared, type) and issubclass(declared, StrEnum):
        return declared(value)
    return value
