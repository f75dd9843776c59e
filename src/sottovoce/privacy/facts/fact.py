"""Facts: what a mechanism did, recorded by the code that executed it.

A fact contains no epsilon. For a neighbouring relation it states its privacy loss (`losses`), the
reasons why no guarantee is possible (`objections`), and what must hold outside the mechanism
(`assumptions`). Facts are immutable, comparable and serialisable as JSON, so that equal steps of a
run become one ledger entry with a count.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants.losses import Loss
from sottovoce.privacy.guarantee import SEEDED_STAMP, Notion, Relation, Unit

# Outside this range, quotients of sizes may underflow or overflow.
SMALLEST_SIZE, LARGEST_SIZE = 1e-50, 1e50

_KINDS: dict[str, type["Fact"]] = {}


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One executed release.

    `pool` names a set of releases among which a unit's total contribution is bounded once
    (parallel composition): the disjoint batches of one epoch, increments of counts, a lifetime cap.
    Only the worst member of a pool counts.
    """

    unit: Unit
    pool: str | None = None
    seeded: bool = False

    kind: ClassVar[str]
    notion: ClassVar[Notion] = Notion.DP

    def __init_subclass__(cls) -> None:
        _KINDS[cls.kind] = cls

    def __post_init__(self) -> None:
        """Check all fields against their types; subclasses call this before their own checks."""
        _validate.parse_fields(self)

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        """The privacy losses of one execution between neighbours, with counts."""
        raise AssertionError(f"{type(self).__name__} does not implement losses()")

    def objections(self, relation: Relation) -> list[str]:
        """Why no epsilon may be stated; empty if there is none."""
        return []

    def why_infinite(self) -> str:
        """The reason to give if no finite epsilon exists at the requested delta."""
        return "outputs of a release without noise can be distinguished with certainty"

    def assumptions(self, relation: Relation) -> list[str]:
        return [SEEDED_STAMP] if self.seeded else []

    def to_json(self) -> dict[str, Any]:
        """Every field that differs from its default, under the fact's kind."""
        defaults = {field.name: field.default for field in fields(self)}
        return {"kind": self.kind} | {
            name: value for name, value in asdict(self).items() if value != defaults[name]
        }


def checked_size(name: str, value: float) -> float:
    """Check a norm, standard deviation or scale: positive, and no quotient may underflow.

    >>> checked_size("clip_norm", 1e-320)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected clip_norm from 1e-50 to 1e+50, got 9.99989e-321.
    """
    _validate.positive(name, value)
    return _validate.between(name, value, SMALLEST_SIZE, LARGEST_SIZE)


def fact_from_json(data: Mapping[str, Any]) -> Fact:
    """Read a fact from JSON; unknown kinds and fields are rejected.

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
        # The constructor converts text to enums and lists to tuples.
        return kind(**values)
    except TypeError as problem:
        raise InvalidInput(f"A fact of kind {kind.kind} is incomplete: {problem}.") from problem
