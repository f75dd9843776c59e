"""Lists of surrogates and where they come from: the distribution pi of the token kernel.

A public list says nothing about the corpus. A list counted in the corpus itself does (value
dissociation in Adelani et al.): it is marked, and the ledger gives it no guarantee. A list from a
DP histogram (see `histogram`) is paid for.
"""

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
from sottovoce.privacy.facts import SurrogateSource
from sottovoce.privacy.noise import Categorical


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

    def __post_init__(self) -> None:
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
        return Surrogates(
            tuple(counts), tuple(counts.values()), self.origin, self.name, self.histogram
        )

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


def even(values: Iterable[str], name: str = "list") -> Surrogates:
    """A public list in which every value is equally likely: the most privacy for its size.

    >>> even(["Paris", "London", "paris"]).values
    ('paris', 'london')
    """
    return Surrogates(tuple(dict.fromkeys(canonical(value) for value in values)), name=name)


def by_rank(surrogates: Surrogates) -> Surrogates:
    """The same values with the weights of Zipf's law, the first the most usual.

    A prior for mechanisms that show usual values more often; as public as the list itself.

    >>> by_rank(even(["rome", "oslo"])).weights
    (1.0, 0.5)
    """
    weights = tuple(1 / rank for rank in range(1, len(surrogates.values) + 1))
    return replace(surrogates, weights=weights)


def read_surrogates(path: str | Path) -> dict[str, Surrogates]:
    """Read lists by type: lines of type, value and perhaps weight, parted by tabs."""
    lists: dict[str, dict[str, float]] = {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"{path}: Expected a text file of surrogates, got {problem}.") from None
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        try:
            kind, value, weight = cells if len(cells) == 3 else (*cells, "1")
            found = lists.setdefault(kind, {})
            key = canonical(value)
            found[key] = found.get(key, 0.0) + float(weight)
        except ValueError:
            raise InvalidInput(
                f"{path}: Expected type, value and weight parted by tabs at line {number}, "
                f"got {line[:40]!r}."
            ) from None
    if not lists:
        raise InvalidInput(f"{path}: Expected surrogates, found none.")
    return {
        kind: Surrogates(tuple(found), tuple(found.values()), name=Path(path).name)
        for kind, found in lists.items()
    }


def from_corpus(values: Sequence[str] | Counter[str], name: str = "corpus") -> Surrogates:
    """The values of the corpus itself, by their frequency: value dissociation, no guarantee."""
    counts = values if isinstance(values, Counter) else Counter(map(canonical, values))
    return Surrogates(
        tuple(counts), tuple(map(float, counts.values())), SurrogateSource.SAME_CORPUS, name
    )
