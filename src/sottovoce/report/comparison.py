"""Two runs side by side: differences in settings, guarantees and metrics."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sottovoce.privacy.guarantee import rounded_down
from sottovoce.report.numbers import Measured, claimed_epsilon, short, true_epsilon
from sottovoce.report.stage import Stage

ABSENT = "–"
LOWER_BOUND = "audit: lower bound on epsilon"
_LONGEST = 160


@dataclass(frozen=True)
class Difference:
    """One row: name, both values, and their difference if it is meaningful."""

    name: str
    first: str
    second: str
    change: str = ""

    @property
    def differs(self) -> bool:
        return self.first != self.second


@dataclass(frozen=True)
class Comparison:
    """The settings in which two runs differ, and all their guarantees and metrics."""

    first: Stage
    second: Stage
    configuration: tuple[Difference, ...]
    guarantee: tuple[Difference, ...]
    metrics: tuple[Difference, ...]


def compare(first: Stage, second: Stage) -> Comparison:
    """Compare two runs."""
    return Comparison(
        first,
        second,
        configuration=tuple(_settings(first, second)),
        guarantee=tuple(_guarantees(first, second)),
        metrics=tuple(_metrics(first, second)),
    )


def _settings(first: Stage, second: Stage) -> Iterator[Difference]:
    yield from _rows({"verb": first.verb}, {"verb": second.verb})
    yield from _rows(flat(first.configuration), flat(second.configuration))
    yield from _rows(flat(first.data, "data"), flat(second.data, "data"))
    yield from _rows(_versions(first), _versions(second))


def _rows(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys([*first, *second]):
        row = Difference(name, _shown(first, name), _shown(second, name))
        if row.differs:
            yield row


def _versions(stage: Stage) -> dict[str, Any]:
    versions = stage.run.get("versions")
    return flat(versions if isinstance(versions, Mapping) else {}, "version of")


def flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested settings, with dotted names.

    >>> flat({"a": {"b": 1}, "c": [1, 2]})
    {'a.b': 1, 'c': [1, 2]}
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{above}.{key}" if above else str(key)
        found |= flat(value, name) if isinstance(value, Mapping) and value else {name: value}
    return found


def shown(value: Any) -> str:
    """A setting as text, truncated if it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _shown(values: Mapping[str, Any], name: str) -> str:
    return shown(values[name]) if name in values else ABSENT


def _guarantees(first: Stage, second: Stage) -> Iterator[Difference]:
    mine = {str(each.guarantee.unit): each for each in first.stated}
    theirs = {str(each.guarantee.unit): each for each in second.stated}
    for unit in dict.fromkeys([*mine, *theirs]):
        pair = [mine.get(unit), theirs.get(unit)]
        true = [ABSENT if each is None else true_epsilon(each.guarantee) for each in pair]
        values = [math.inf if each is None else each.guarantee.epsilon for each in pair]
        yield Difference(f"epsilon to one {unit}", true[0], true[1], _change(*values))
        deltas = [ABSENT if each is None else f"{each.guarantee.delta:g}" for each in pair]
        yield Difference(f"delta to one {unit}", *deltas)
        claims = [ABSENT if each is None else claimed_epsilon(each.claim) for each in pair]
        if claims != [ABSENT, ABSENT]:
            yield Difference(f"claimed for one {unit}", *claims)
        relations = [ABSENT if each is None else str(each.guarantee.relation) for each in pair]
        if relations[0] != relations[1]:
            yield Difference("neighbours", *relations)


def _metrics(first: Stage, second: Stage) -> Iterator[Difference]:
    mine, theirs = measurements(first), measurements(second)
    for name in dict.fromkeys([*mine, *theirs]):
        a, b = mine.get(name), theirs.get(name)
        change = "" if a is None or b is None else _change(a.value, b.value)
        shown = _lower_bound if name == LOWER_BOUND else _measured
        yield Difference(name, shown(a), shown(b), change)


def measurements(stage: Stage) -> dict[str, Measured]:
    """All measured numbers of a run by name, including timings."""
    found: dict[str, Measured] = {}
    _gather(stage.metrics, "", found)
    for name, value in stage.timings.items():
        if (measured := Measured.read(value)) is not None:
            found[f"timings: {name.replace('_', ' ')}"] = measured
    bound = stage.lower_bound
    if bound is not None and math.isfinite(bound.epsilon):
        found[LOWER_BOUND] = Measured(bound.epsilon)
    strongest = None if stage.audit is None else stage.audit.strongest
    if strongest is not None:
        found["audit: AUC of the strongest attack"] = Measured(
            strongest.auc, *strongest.auc_interval
        )
    return found


def _gather(values: Mapping[str, Any], above: str, found: dict[str, Measured]) -> None:
    for key, value in values.items():
        name = f"{above}: {key}" if above else str(key)
        measured = Measured.read(value)
        if measured is not None:
            found[name.replace("_", " ")] = measured
        elif isinstance(value, Mapping):
            _gather(value, name, found)


def _measured(measured: Measured | None) -> str:
    if measured is None:
        return ABSENT
    if measured.low is None or measured.high is None:
        return short(measured.value)
    return f"{short(measured.value)} [{short(measured.low)}, {short(measured.high)}]"


def _lower_bound(measured: Measured | None) -> str:
    return ABSENT if measured is None else rounded_down(measured.value)


def _change(first: float, second: float) -> str:
    if not (math.isfinite(first) and math.isfinite(second)):
        return ""
    if first == second:
        return "equal"
    times = f" (× {short(second / first)})" if first > 0 and second > 0 else ""
    return f"{'+' if second > first else '−'}{short(abs(second - first))}{times}"
