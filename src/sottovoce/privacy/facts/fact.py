"""Facts: what a mechanism really did, written down by the code that did it.

A fact knows nothing of epsilon. It answers three questions for a relation of neighbours: what loss
it causes (`losses`), why it may not be vouched for at all (`objections`), and what has to be true
outside of it (`assumptions`). Facts are immutable, comparable and JSON both ways, so that equal
steps of a run collapse into one ledger entry with a count.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants.losses import Loss
from sottovoce.privacy.guarantee import SEEDED_STAMP, Notion, Relation, Unit

# No floating point can execute sizes beyond these, and their quotients would underflow.
SMALLEST_SIZE, LARGEST_SIZE = 1e-50, 1e50

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

    def __post_init__(self) -> None:
        """Check every field by its declaration; subclasses call this before their own rules."""
        _validate.parse_fields(self)

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


def checked_size(name: str, value: float) -> float:
    """A norm, a standard deviation, a scale: above 0, and such that quotients do not underflow.

    >>> checked_size("clip_norm", 1e-320)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected clip_norm from 1e-50 to 1e+50, got 9.99989e-321.
    """
    _validate.positive(name, value)
    return _validate.between(name, value, SMALLEST_SIZE, LARGEST_SIZE)


def fact_from_json(data: Mapping[str, Any]) -> Fact:
    """Read a fact back; what its type does not know is refused.

    >>> from sottovoce.privacy.facts import BoundedRelease
    >>> fact = BoundedRelease(unit=Unit.TOKEN, mechanism="response", epsilon=1.0)
    >>> fact_from_json(fact.to_json()) == fact
    True
    """
    name = data.get("kind") if isinstance(data, Mapping) else None
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidInput(f"Expected a fact of kind {', '.join(_KINDS)}, got {name!r}.")
    known = {field.name for field in fields(kind)}
    values = {field: value for field, value in data.items() if field != "kind"}
    for field in values:
        if field not in known:
            raise InvalidInput(f"Expected no field {field!r} in a fact of kind {kind.kind}.")
    try:
        # The fact itself turns text into enums and lists into tuples.
        return kind(**values)
    except TypeError as problem:
        raise InvalidInput(f"A fact of kind {kind.kind} is incomplete: {problem}.") from problem
