"""What was spent on the same people: by population, by unit and by year, and what is left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce.privacy.composition import Part, Total, total_for_a_person, total_for_a_unit
from sottovoce.privacy.guarantee import Unit, rounded_up
from sottovoce.privacy.policy import Policy


@dataclass(frozen=True)
class Entry:
    """One release in the book. An open one counts with what it reserved."""

    id: str
    at: str
    verb: str
    people: str
    parts: tuple[Part, ...]
    settled: bool
    artifacts: Mapping[str, str]
    note: str = ""

    @property
    def year(self) -> str:
        return self.at[:4]

    def to_json(self) -> dict[str, Any]:
        alone = total_for_a_person(self.parts) if self.parts else None
        return {
            "id": self.id,
            "at": self.at,
            "verb": self.verb,
            "people": self.people,
            "settled": self.settled,
            "units": sorted({str(part.unit) for part in self.parts}),
            "person": None if alone is None else alone.to_json(),
            "artifacts": dict(self.artifacts),
            "note": self.note,
        }


@dataclass(frozen=True)
class Totals:
    """The totals of one population."""

    people: str
    person: Total
    by_unit: Mapping[Unit, Total]
    by_year: Mapping[str, Total]

    def left(self, policy: Policy) -> float | None:
        """The epsilon that may still be spent on one person; None without a limit or a total."""
        limit = policy.epsilon.get(Unit.USER)
        if limit is None or not self.person.holds:
            return None
        return max(0.0, limit.most - self.person.epsilon)

    def to_json(self, policy: Policy) -> dict[str, Any]:
        return {
            "people": self.people,
            "person": self.person.to_json(),
            "left": self.left(policy),
            "by_unit": {str(unit): total.to_json() for unit, total in self.by_unit.items()},
            "by_year": {year: total.to_json() for year, total in self.by_year.items()},
        }


def totals_of(entries: Sequence[Entry]) -> dict[str, Totals]:
    """The totals of every population."""
    return {
        people: _totals(people, [entry for entry in entries if entry.people == people])
        for people in dict.fromkeys(entry.people for entry in entries)
    }


def parts_of(entries: Sequence[Entry]) -> list[Part]:
    return [part for entry in entries for part in entry.parts]


def _totals(people: str, entries: Sequence[Entry]) -> Totals:
    every = parts_of(entries)
    years = sorted({entry.year for entry in entries})
    person = total_for_a_person(every)
    return Totals(
        people=people,
        person=person,
        by_unit={
            unit: total_for_a_unit(every, unit)
            for unit in Unit
            if any(part.unit is unit for part in every)
        },
        by_year={
            year: person
            if len(years) == 1
            else total_for_a_person(parts_of([e for e in entries if e.year == year]))
            for year in years
        },
    )


def objection(entries: Sequence[Entry], new: Sequence[Part], policy: Policy) -> str | None:
    """Why the policy does not allow `new` after these entries; None if it does."""
    every = [*parts_of(entries), *new]
    for part in new:
        if policy.epsilon and not part.guarantee().holds:
            return (
                f"{part.name} has no guarantee ({part.guarantee().reasons[0]}), and the policy "
                f"{policy.name} limits epsilon"
            )
    units = {part.unit for part in new}
    totals: dict[Unit, Total] = {
        unit: total_for_a_unit(every, unit) for unit in units if unit is not Unit.USER
    }
    if all(part.to_user is not None for part in every) and new:
        totals[Unit.USER] = total_for_a_person(every)
    for unit, total in totals.items():
        limit = policy.epsilon.get(unit)
        if limit is not None and not total.holds:
            why = total.reasons[0] if total.reasons else "one of them has none"
            return f"all releases together would have no guarantee to one {unit}: {why}"
        if limit is not None and total.epsilon > limit.most:
            return (
                f"it would bring the epsilon of one {unit} to {rounded_up(total.epsilon)} "
                f"({total.way}), and the policy {policy.name} allows {limit.most:g}"
            )
        if policy.delta is not None and total.guarantee is not None:
            delta = total.guarantee.delta
            if delta > policy.delta * (1 + 1e-9):
                return (
                    f"it would bring the delta of one {unit} to {delta:.3g}, and the policy "
                    f"{policy.name} allows {policy.delta:g}"
                )
    return None
