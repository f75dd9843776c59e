"""Lists of surrogates and where they come from: the distribution pi of the token kernel.

A public list says nothing about the corpus. A list counted in the corpus itself does (value
dissociation in Adelani et al.): it is marked, and the ledger gives it no guarantee. A list from a
DP histogram (see `histogram`) is paid for, by everyone who draws from it: a saved list carries
where it came from and what it cost. Of a list in a file that does not say so it is assumed, and
stated, that nothing private went into it.
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
from sottovoce.deid.replace.letters import canonical
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.privacy.facts import SurrogateSource
from sottovoce.privacy.noise import Categorical

_MADE = "#surrogates "


@dataclass(frozen=True)
class Surrogates:
    """Values with weights, in canonical form.

    >>> cities = Surrogates(("london", "paris"), (3.0, 1.0))
    >>> cities.probabilities["paris"], cities.least
    (0.25, 0.25)
    >>> Surrogates(("london",))
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected at least two surrogates, got 1; with one value there is
    nothing to choose, use a placeholder.
    """

    values: tuple[str, ...]
    weights: tuple[float, ...] = ()
    origin: SurrogateSource = SurrogateSource.PUBLIC
    name: str = "list"
    histogram: Mapping[str, float] = field(default_factory=dict, hash=False)
    assumptions: tuple[str, ...] = ()
    shipped: bool = False
    """Whether it came with this package; of any other public list that is assumed, and said."""

    def __post_init__(self) -> None:
        _validate.parse_choices(self)
        if self.origin is SurrogateSource.PUBLIC and not self.shipped:
            told = f"nothing private went into the list of surrogates {self.name}"
            object.__setattr__(self, "assumptions", tuple(dict.fromkeys((*self.assumptions, told))))
        if {*self.histogram} - {"epsilon", "delta"}:
            raise InvalidInput(
                f"Expected epsilon and delta of a histogram, got {', '.join(self.histogram)}."
            )
        _validate.not_negative("histogram epsilon", self.histogram.get("epsilon", 0.0))
        _validate.delta(self.histogram.get("delta", 0.0), "histogram delta")
        if self.origin is SurrogateSource.DP_HISTOGRAM and not self.histogram.get("epsilon"):
            raise InvalidInput(
                "Expected what the histogram cost with surrogates of origin dp-histogram, got "
                "nothing."
            )
        if len(self.values) < 2:
            raise InvalidInput(
                f"Expected at least two surrogates, got {len(self.values)}; with one value there "
                "is nothing to choose, use a placeholder."
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
    def least(self) -> float:
        """The smallest probability: what epsilon rests on."""
        return min(self.weights) / sum(self.weights)

    @property
    def digest(self) -> str:
        """A short name of the values and weights: noisy counts are never equal by chance."""
        content = json.dumps([self.values, self.weights]).encode()
        return hashlib.sha256(content).hexdigest()[:16]

    @cached_property
    def distribution(self) -> Categorical:
        return Categorical(np.array(self.weights))

    def words(self) -> "Surrogates":
        """The list of the single words, each weighted by the values that it occurs in.

        >>> Surrogates(("new york", "york")).words().probabilities["york"]
        0.6666666666666666
        """
        counts: Counter[str] = Counter()
        for value, weight in zip(self.values, self.weights, strict=True):
            for word in value.split():
                counts[word] += weight  # type: ignore[assignment]  # Counters hold floats too.
        return replace(self, values=tuple(counts), weights=tuple(counts.values()))

    def most_likely(self, count: int) -> tuple[str, ...]:
        """The `count` values of the largest weight; of equal ones the earlier."""
        order = sorted(range(len(self.values)), key=lambda place: -self.weights[place])
        return tuple(self.values[place] for place in order[:count])

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "origin": str(self.origin),
            "values": len(self.values),
            "least_probability": self.least,
        }


def even(values: Iterable[str], name: str = "list", *, shipped: bool = False) -> Surrogates:
    """A public list in which every value is equally likely: the most privacy for its size.

    >>> even(["Paris", "London", "paris"]).values
    ('paris', 'london')
    """
    once = tuple(dict.fromkeys(canonical(value) for value in values))
    return Surrogates(once, name=name, shipped=shipped)


def by_rank(surrogates: Surrogates) -> Surrogates:
    """The same values with the weights of Zipf's law, the first the most usual.

    A prior for mechanisms that show usual values more often; as public as the list itself.

    >>> by_rank(even(["rome", "oslo"])).weights
    (1.0, 0.5)
    """
    weights = tuple(1 / rank for rank in range(1, len(surrogates.values) + 1))
    return replace(surrogates, weights=weights)


def read_surrogates(path: str | Path) -> dict[str, Surrogates]:
    """Read lists by type: lines of type, value and perhaps weight, parted by tabs.

    A list that `write_surrogates` wrote says in its first line where it came from.
    """
    lists: dict[str, dict[str, float]] = {}
    try:
        # A mark that some editors put at the start would become part of the first type.
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"{path}: Expected a text file of surrogates, got {problem}.") from None
    made = _made(path, lines[0]) if lines and lines[0].startswith(_MADE) else None
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
                f"{path}: Expected type, value and weight parted by tabs at line {number}, "
                f"got {line[:40]!r}."
            ) from None
    if not lists:
        raise InvalidInput(f"{path}: Expected surrogates, found none.")
    name = Path(path).name
    if made is None:
        return {
            kind: Surrogates(tuple(found), tuple(found.values()), name=name)
            for kind, found in lists.items()
        }
    if {*made} != {*lists}:
        raise InvalidInput(f"{path}: Expected the origin of every list in the first line.")
    try:
        return {
            kind: Surrogates(tuple(found), tuple(found.values()), name=name, **made[kind])
            for kind, found in lists.items()
        }
    except (TypeError, AttributeError) as problem:
        raise InvalidInput(f"{path}: Expected the origin of {name}, but {problem}.") from problem


def write_surrogates(path: str | Path, lists: Mapping[str, Surrogates]) -> None:
    """Write lists with where they came from and what they cost, for another run."""
    made = {
        kind: {
            "origin": str(listed.origin),
            "histogram": dict(listed.histogram),
            "assumptions": list(listed.assumptions),
        }
        for kind, listed in lists.items()
    }
    with text_output(path) as stream:
        stream.write(f"{_MADE}{json.dumps(made)}\n")
        for kind, listed in lists.items():
            for value, weight in zip(listed.values, listed.weights, strict=True):
                stream.write(f"{kind}\t{value}\t{weight!r}\n")


def _made(path: str | Path, line: str) -> dict[str, dict[str, Any]]:
    try:
        told = json.loads(line.removeprefix(_MADE))
        return {
            kind: {
                "origin": each["origin"],
                "histogram": dict(each["histogram"]),
                "assumptions": tuple(each["assumptions"]),
            }
            for kind, each in told.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise InvalidInput(f"{path}: Expected the origin of the lists, but {problem!r}.") from None


def from_corpus(values: Sequence[str] | Counter[str], name: str = "corpus") -> Surrogates:
    """The values of the corpus itself, by their frequency: value dissociation, no guarantee."""
    counts = values if isinstance(values, Counter) else Counter(map(canonical, values))
    return Surrogates(
        tuple(counts), tuple(map(float, counts.values())), SurrogateSource.SAME_CORPUS, name
    )
