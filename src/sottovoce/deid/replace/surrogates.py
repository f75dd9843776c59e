"""Surrogate lists and their origin: the distribution pi of the token kernel.

A public list is independent of the corpus. A list counted in the corpus itself is not (value
dissociation in Adelani et al.): it is marked, and the ledger gives it no guarantee. A list from a
DP histogram (see `counted`) carries its origin and cost, also when saved, and every release that
draws from it pays. A file without an origin is assumed, and stated, to contain nothing private.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce import _validate
from sottovoce.deid.replace.forms import canonical
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.privacy.facts import SurrogateSource
from sottovoce.privacy.noise import Categorical

_ORIGIN_MARK = "#surrogates "


@dataclass(frozen=True)
class Surrogates:
    """Values with weights, in canonical form.

    >>> cities = Surrogates(("london", "paris"), (3.0, 1.0))
    >>> cities.probabilities["paris"], cities.min_probability
    (0.25, 0.25)
    >>> Surrogates(("london",))
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected at least two surrogates, got 1: use a placeholder.
    """

    values: tuple[str, ...]
    weights: tuple[float, ...] = ()
    origin: SurrogateSource = SurrogateSource.PUBLIC
    name: str = "list"
    histogram: Mapping[str, float] = field(default_factory=dict, hash=False)
    assumptions: tuple[str, ...] = ()
    shipped: bool = False
    """Whether it is built in; for any other list, being public is a stated assumption."""

    def __post_init__(self) -> None:
        _validate.parse_choices(self)
        if self.origin is SurrogateSource.PUBLIC and not self.shipped:
            public = f"nothing private went into the list of surrogates {self.name}"
            assumptions = tuple(dict.fromkeys((*self.assumptions, public)))
            object.__setattr__(self, "assumptions", assumptions)
        if {*self.histogram} - {"epsilon", "delta"}:
            raise InvalidInput(
                f"Expected epsilon and delta of a histogram, got {', '.join(self.histogram)}."
            )
        _validate.not_negative("histogram epsilon", self.histogram.get("epsilon", 0.0))
        _validate.delta(self.histogram.get("delta", 0.0), "histogram delta")
        if self.origin is SurrogateSource.DP_HISTOGRAM and not self.histogram.get("epsilon"):
            raise InvalidInput(
                "Expected the cost of the histogram with surrogates of origin dp-histogram, got "
                "none."
            )
        if len(self.values) < 2:
            raise InvalidInput(
                f"Expected at least two surrogates, got {len(self.values)}: use a placeholder."
            )
        if not self.weights:
            object.__setattr__(self, "weights", (1.0,) * len(self.values))
        if len(self.weights) != len(self.values):
            raise InvalidInput(
                f"Expected a weight for each of {len(self.values)} surrogates, "
                f"got {len(self.weights)}."
            )
        for weight in self.weights:
            _validate.positive("every weight", weight)
        for value in self.values:
            if not value or value != canonical(value):
                raise InvalidInput(f"Expected surrogates in lower case, got {value!r}.")
        if len(self.index) != len(self.values):
            twice = Counter(self.values).most_common(1)[0][0]
            raise InvalidInput(f"Expected every surrogate once, got {twice!r} twice.")

    @cached_property
    def index(self) -> dict[str, int]:
        return {value: place for place, value in enumerate(self.values)}

    @cached_property
    def probabilities(self) -> dict[str, float]:
        total = sum(self.weights)
        return {
            value: weight / total for value, weight in zip(self.values, self.weights, strict=True)
        }

    @property
    def min_probability(self) -> float:
        """The smallest probability, which determines epsilon."""
        return min(self.weights) / sum(self.weights)

    @property
    def digest(self) -> str:
        """A short hash of the values and weights: noisy counts are never equal by chance."""
        content = json.dumps([self.values, self.weights]).encode()
        return hashlib.sha256(content).hexdigest()[:16]

    @cached_property
    def distribution(self) -> Categorical:
        return Categorical(np.array(self.weights))

    def words(self) -> "Surrogates":
        """The list of single words, weighted by the values that contain them.

        >>> Surrogates(("new york", "york")).words().probabilities["york"]
        0.6666666666666666
        """
        counts: Counter[str] = Counter()
        for value, weight in zip(self.values, self.weights, strict=True):
            for word in value.split():
                counts[word] += weight  # type: ignore[assignment]  # Counters can hold floats.
        return replace(self, values=tuple(counts), weights=tuple(counts.values()))

    def most_likely(self, count: int) -> tuple[str, ...]:
        """The `count` values of largest weight; ties go to the earlier value."""
        order = sorted(range(len(self.values)), key=lambda place: -self.weights[place])
        return tuple(self.values[place] for place in order[:count])

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "origin": str(self.origin),
            "values": len(self.values),
            "least_probability": self.min_probability,
        }


def uniform(values: Iterable[str], name: str = "list", *, shipped: bool = False) -> Surrogates:
    """A public list with uniform probabilities: the most privacy for its size.

    >>> uniform(["Paris", "London", "paris"]).values
    ('paris', 'london')
    """
    once = tuple(dict.fromkeys(canonical(value) for value in values))
    return Surrogates(once, name=name, shipped=shipped)


def by_rank(surrogates: Surrogates) -> Surrogates:
    """The same values with Zipf weights, the first the most frequent.

    A prior for mechanisms that favour frequent values; as public as the list itself.

    >>> by_rank(uniform(["rome", "oslo"])).weights
    (1.0, 0.5)
    """
    weights = tuple(1 / rank for rank in range(1, len(surrogates.values) + 1))
    return replace(surrogates, weights=weights)


def read_surrogates(path: str | Path) -> dict[str, Surrogates]:
    """Read lists by type: lines of type, value and optional weight, separated by tabs.

    A file by `write_surrogates` states its origin in the first line.
    """
    lists: dict[str, dict[str, float]] = {}
    try:
        # A byte-order mark would otherwise become part of the first type.
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"{path}: Expected a text file of surrogates, got {problem}.") from None
    made = _origins(path, lines[0]) if lines and lines[0].startswith(_ORIGIN_MARK) else None
    for number, line in enumerate(lines[made is not None :], 1 + (made is not None)):
        cells = line.split("\t")
        try:
            kind, value, weight = cells if len(cells) == 3 else (*cells, "1")
            if not kind or kind != kind.strip():
                raise ValueError
            found = lists.setdefault(kind, {})
            key = canonical(value)
            found[key] = found.get(key, 0.0) + _validate.positive("weight", float(weight))
        except ValueError:
            raise InvalidInput(
                f"{path}: Expected type, value and weight separated by tabs at line {number}, "
                f"got {line[:40]!r}."
            ) from None
    if not lists:
        raise InvalidInput(f"{path}: Expected surrogates, got none.")
    name = Path(path).name
    if made is None:
        return {
            kind: Surrogates(tuple(found), tuple(found.values()), name=name)
            for kind, found in lists.items()
        }
    if {*made} != {*lists}:
        raise InvalidInput(
            f"{path}: Expected the origin of every list in the first line, got others."
        )
    try:
        return {
            kind: Surrogates(tuple(found), tuple(found.values()), name=name, **made[kind])
            for kind, found in lists.items()
        }
    except (TypeError, AttributeError) as problem:
        raise InvalidInput(f"{path}: Expected the origin of {name}, but {problem}.") from problem


def write_surrogates(path: str | Path, lists: Mapping[str, Surrogates]) -> None:
    """Write lists with their origin and cost, for another run."""
    made = {
        kind: {
            "origin": str(listed.origin),
            "histogram": dict(listed.histogram),
            "assumptions": list(listed.assumptions),
        }
        for kind, listed in lists.items()
    }
    with text_output(path) as stream:
        stream.write(f"{_ORIGIN_MARK}{json.dumps(made)}\n")
        for kind, listed in lists.items():
            for value, weight in zip(listed.values, listed.weights, strict=True):
                stream.write(f"{kind}\t{value}\t{weight!r}\n")


def _origins(path: str | Path, line: str) -> dict[str, dict[str, Any]]:
    try:
        origins = json.loads(line.removeprefix(_ORIGIN_MARK))
        return {
            kind: {
                "origin": each["origin"],
                "histogram": dict(each["histogram"]),
                "assumptions": tuple(each["assumptions"]),
            }
            for kind, each in origins.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise InvalidInput(f"{path}: Expected the origin of the lists, but {problem!r}.") from None


def from_corpus(values: Sequence[str] | Counter[str], name: str = "corpus") -> Surrogates:
    """The values of the corpus with their frequencies: value dissociation, no guarantee."""
    counts = values if isinstance(values, Counter) else Counter(map(canonical, values))
    return Surrogates(
        tuple(counts), tuple(map(float, counts.values())), SurrogateSource.SAME_CORPUS, name
    )
