"""The total for one person over several releases about the same people.

Every release is brought to the user: a release that protects users counts as it is, one that
protects smaller units counts as a group of as many as a user may contribute. Without a declared
limit there is no total for a user, and the result says so. Losses that have a distribution are
composed by it; releases that cannot be combined in this way are added up.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from sottovoce import _validate
from sottovoce.errors import CannotAccount, InvalidInput, SottovoceError
from sottovoce.privacy.accounting import Entry, derive, several_runs
from sottovoce.privacy.facts import fact_from_json
from sottovoce.privacy.groups import LARGEST_GROUP
from sottovoce.privacy.guarantee import Guarantee, Notion, Relation, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.risk import Tradeoff, tradeoff

BASIC = "basic composition: the epsilons and the deltas of the releases are added up"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One release: what was executed, on which unit, and how many of them a user may contribute."""

    name: str
    unit: Unit
    relation: Relation
    delta: float
    entries: tuple[Entry, ...]
    group_size: int | None = None
    assumptions: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _validate.parse_choices(self)

    @classmethod
    def of(cls, name: str, ledger: Ledger, delta: float, group_size: int | None = None) -> Self:
        return cls(
            name=name,
            unit=ledger.unit,
            relation=ledger.relation,
            delta=delta,
            entries=ledger.entries,
            group_size=None if ledger.unit is Unit.USER else group_size,
            assumptions=ledger.assumptions,
            not_covered=ledger.not_covered,
        )

    @property
    def to_user(self) -> int | None:
        """How many units one user has: 1 for a user, None if nobody said."""
        return 1 if self.unit is Unit.USER else self.group_size

    def guarantee(self, relation: Relation | None = None, *, size: int = 1) -> Guarantee:
        """The guarantee of this release alone, to `size` of its units."""
        return derive(
            list(self.entries),
            unit=self.unit if size == 1 else Unit.USER,
            relation=relation or self.relation,
            delta=self.delta,
            population=None,
            assumptions=self.assumptions,
            not_covered=self.not_covered,
            group_size=size,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "unit": str(self.unit),
            "relation": str(self.relation),
            "delta": self.delta,
            "entries": [[entry.fact.to_json(), entry.count] for entry in self.entries],
            "group_size": self.group_size,
            "assumptions": list(self.assumptions),
            "not_covered": list(self.not_covered),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        try:
            size = data["group_size"]
            return cls(
                name=str(data["name"]),
                unit=Unit(data["unit"]),
                relation=Relation(data["relation"]),
                delta=float(data["delta"]),
                entries=tuple(Entry(fact_from_json(f), n) for f, n in data["entries"]),
                group_size=None if size is None else int(size),
                assumptions=tuple(map(str, data["assumptions"])),
                not_covered=tuple(map(str, data["not_covered"])),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise InvalidInput(f"Expected a release in JSON, but {problem!r}.") from problem


@dataclass(frozen=True)
class Total:
    """The guarantee over all releases, or the reasons why there is none, and the way it was made.

    `parts` counts the releases; `guarantee` is None where units cannot be brought to each other.
    """

    guarantee: Guarantee | None
    way: str
    parts: int
    reasons: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.guarantee is not None and self.guarantee.holds

    @property
    def epsilon(self) -> float:
        return math.inf if self.guarantee is None else self.guarantee.epsilon

    def to_json(self) -> dict[str, Any]:
        return {
            "guarantee": None if self.guarantee is None else self.guarantee.to_json(),
            "way": self.way,
            "releases": self.parts,
            "reasons": list(self.reasons),
        }


def total_for_a_person(parts: Sequence[Part]) -> Total:
    """The guarantee to one user over all releases, if every one of them can be brought to users.

    >>> from sottovoce.privacy.facts import BoundedRelease
    >>> def histogram(unit, group_size=None):
    ...     fact = BoundedRelease(unit=unit, mechanism="histogram", epsilon=0.5)
    ...     return Part(name="h", unit=unit, relation=Relation.ADD_OR_REMOVE, delta=0.0,
    ...                 entries=(Entry(fact),), group_size=group_size)
    >>> total_for_a_person([histogram(Unit.USER), histogram(Unit.EXAMPLE, 3)]).epsilon
    2.0
    >>> total_for_a_person([histogram(Unit.EXAMPLE)]).reasons
    ('h protects one example, and nobody declared how many of them a user has at most',)
    """
    unbounded = [
        f"{part.name} protects one {part.unit}, and nobody declared how many of them a user has "
        "at most"
        for part in parts
        if part.to_user is None
    ]
    if unbounded:
        return Total(None, "none", len(parts), tuple(dict.fromkeys(unbounded)))
    return _total(parts, [part.to_user or 1 for part in parts], Unit.USER)


def tradeoff_for_a_person(parts: Sequence[Part]) -> Tradeoff | None:
    """The trade-off curve to one user over all releases, where their losses have one."""
    if not parts or any(part.to_user is None for part in parts):
        return None
    relations = {part.relation for part in parts}
    sizes = [part.to_user or 1 for part in parts for _ in part.entries]
    try:
        return tradeoff(
            several_runs(part.entries for part in parts),
            relation=relations.pop() if len(relations) == 1 else Relation.REPLACE_ONE,
            group_size=1 if set(sizes) <= {1} else sizes,
        )
    except SottovoceError:
        return None


def total_for_a_unit(parts: Sequence[Part], unit: Unit) -> Total:
    """The guarantee to one unit over all releases that protect it."""
    own = [part for part in parts if part.unit is unit]
    return _total(own, [1] * len(own), unit)


def _total(parts: Sequence[Part], sizes: Sequence[int], unit: Unit) -> Total:
    if any(size > LARGEST_GROUP for size in sizes):
        reason = f"a user may have more than {LARGEST_GROUP:,} units: no useful guarantee"
        return Total(None, "none", len(parts), (reason,))
    if len({part.relation for part in parts}) > 1:
        # Replacing a person is the stronger relation: it covers adding or removing one.
        relation = Relation.REPLACE_ONE
    else:
        relation = parts[0].relation if parts else Relation.ADD_OR_REMOVE
    delta = math.fsum(part.delta for part in parts)
    joint: Guarantee | None = None
    why: tuple[str, ...]
    try:
        joint = _jointly(parts, sizes, unit, relation, delta)
        why = joint.reasons
    except (CannotAccount, InvalidInput) as problem:
        why = (str(problem),)
    if joint is not None and joint.holds:
        return Total(joint, joint.accountant, len(parts))
    added = _added_up(parts, sizes, unit, relation, delta)
    if added is not None:
        return Total(added, BASIC, len(parts))
    return Total(joint, "none", len(parts), why)


def _jointly(
    parts: Sequence[Part], sizes: Sequence[int], unit: Unit, relation: Relation, delta: float
) -> Guarantee:
    entries = several_runs(part.entries for part in parts)
    of_entries = [
        size for part, size in zip(parts, sizes, strict=True) for _ in range(len(part.entries))
    ]
    bounds = [
        f"no user has more than {size} {part.unit}s ({part.name})"
        for part, size in zip(parts, sizes, strict=True)
        if part.unit is not unit
    ]
    return derive(
        entries,
        unit=unit,
        relation=relation,
        delta=min(delta, 1.0),
        population=None,
        assumptions=[*(each for part in parts for each in part.assumptions), *bounds],
        not_covered=[each for part in parts for each in part.not_covered],
        group_size=of_entries,
    )


def _added_up(
    parts: Sequence[Part], sizes: Sequence[int], unit: Unit, relation: Relation, delta: float
) -> Guarantee | None:
    """The sum of epsilons, if every release has one under this relation."""
    alone = []
    for part, size in zip(parts, sizes, strict=True):
        try:
            found = part.guarantee(relation, size=size)
            if not found.holds and relation is not part.relation:
                # Replacing a user is removing one and adding one.
                found = part.guarantee(size=2 * size)
        except SottovoceError:
            return None
        if not found.holds or found.notion is Notion.METRIC_DP:
            return None
        alone.append(found)
    if not alone or delta >= 1:
        return None
    return Guarantee(
        epsilon=math.fsum(each.epsilon for each in alone),
        delta=delta,
        unit=unit,
        relation=relation,
        accountant=BASIC.partition(":")[0],
        assumptions=tuple(dict.fromkeys(s for each in alone for s in each.assumptions)),
        not_covered=tuple(dict.fromkeys(s for each in alone for s in each.not_covered)),
    )
