"""Semantically close surrogates: the exponential mechanism over word vectors.

M(y|x) is proportional to exp(-scale d(x, y)), with the distance d normalised to at most 1 within
the type. This gives plain differential privacy (not metric privacy) for every pair of values of the
type. The standard proof allows scale = epsilon / 2; here the epsilon of the channel is computed
exactly over all pairs, and the largest admissible scale is used. A value outside the list gets the
mean of all rows, which cannot increase epsilon.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce.corpora.wordvectors import WordVectors
from sottovoce.deid.replace.forms import canonical, match_case
from sottovoce.deid.replace.mechanism import Cost, Scope, form_assumptions
from sottovoce.deid.replace.surrogates import Surrogates
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import SurrogateSource
from sottovoce.privacy.noise import Categorical, NoiseSource

MAX_VALUES = 4000
"""The channel is a dense matrix; a larger one would not fit into memory."""

Table = NDArray[np.float64]
_PUBLIC_VECTORS = "nothing private went into the word vectors"


@dataclass(frozen=True, kw_only=True, eq=False)
class SemanticExponential:
    """Replaces a value by a semantically close one, with pure epsilon.

    >>> vectors = WordVectors(("rome", "oslo", "lima"), np.eye(3))
    >>> from sottovoce.deid.replace.surrogates import uniform
    >>> near = SemanticExponential.for_epsilon(1.0, uniform(["rome", "oslo", "lima"]), vectors)
    >>> 0.999 < near.epsilon <= 1.0, near.channel("rome")["rome"] > near.channel("rome")["oslo"]
    (True, True)
    """

    values: tuple[str, ...]
    distances: Table
    scale: float
    whole: bool = True
    scoped: ClassVar[bool] = False
    keep_case: bool = True
    assumptions: tuple[str, ...] = ()

    @classmethod
    def for_epsilon(
        cls,
        epsilon: float,
        surrogates: Surrogates,
        vectors: WordVectors,
        *,
        whole: bool = True,
        keep_case: bool = True,
    ) -> "SemanticExponential":
        """The mechanism of largest scale whose exact epsilon is at most this."""
        _validate.not_negative("epsilon", epsilon)
        if surrogates.origin is not SurrogateSource.PUBLIC or surrogates.histogram:
            raise InvalidInput(
                "Expected public surrogates for the exponential mechanism, got a list counted in "
                "the corpus."
            )
        values, points = _located(surrogates.values, vectors)
        distances = _distances(points)
        low, high = 0.0, max(epsilon, 1e-9)
        # scale = epsilon / 2 is always admissible; scale = epsilon is the upper limit.
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if _epsilon(distances, middle) <= epsilon else (low, middle)
        return cls(
            values=values,
            distances=distances,
            scale=low,
            whole=whole,
            keep_case=keep_case,
            assumptions=(*surrogates.assumptions, _PUBLIC_VECTORS),
        )

    @cached_property
    def epsilon(self) -> float:
        """The exact epsilon of the channel."""
        return _epsilon(self.distances, self.scale)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {value: place for place, value in enumerate(self.values)}

    @cached_property
    def _rows(self) -> Table:
        return np.exp(_log_channel(self.distances, self.scale))

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        found = [self._index.get(canonical(value)) for value in values]
        # Sampling from the mean row: pick a row uniformly, then sample from it.
        others = source.integers(len(self.values), len(values)).tolist()
        groups: dict[int, list[int]] = {}
        for place, (own, other) in enumerate(zip(found, others, strict=True)):
            groups.setdefault(other if own is None else own, []).append(place)
        outputs = [""] * len(values)
        for row, places in groups.items():
            drawn = self._sampler(row).draw(len(places), source).tolist()
            for place, index in zip(places, drawn, strict=True):
                outputs[place] = self.values[index]
        if not self.keep_case:
            return outputs
        return [match_case(out, value) for out, value in zip(outputs, values, strict=True)]

    def _sampler(self, row: int) -> Categorical:
        kept = self._samplers.get(row)
        if kept is None:
            kept = self._samplers[row] = Categorical(self._rows[row])
        return kept

    @cached_property
    def _samplers(self) -> dict[int, Categorical]:
        return {}

    def channel(self, value: str) -> dict[str, float]:
        """M(.|value), in canonical form."""
        place = self._index.get(value)
        row = self._rows.mean(axis=0) if place is None else self._rows[place]
        return dict(zip(self.values, row.tolist(), strict=True))

    def cost(self) -> Cost:
        least = float(self._rows.min())
        return Cost(
            epsilon=self.epsilon,
            smallest_probability=least,
            assumptions=(
                *form_assumptions(whole=self.whole, keep_case=self.keep_case),
                *self.assumptions,
            ),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": "exponential over word vectors",
            "epsilon": self.epsilon,
            "scale": self.scale,
            "values": len(self.values),
            "whole": self.whole,
            "keep_case": self.keep_case,
        }


def count_located(surrogates: Surrogates, vectors: WordVectors) -> int:
    """The number of surrogates that have a vector."""
    return sum(any(word in vectors.index for word in v.split()) for v in surrogates.values)


def _located(values: Sequence[str], vectors: WordVectors) -> tuple[tuple[str, ...], Table]:
    """The values that have a vector, and their vectors (the mean over words)."""
    kept, points = [], []
    for value in values:
        rows = [vectors.index[word] for word in value.split() if word in vectors.index]
        if rows:
            kept.append(value)
            points.append(vectors.vectors[rows].astype(np.float64).mean(axis=0))
    if not 2 <= len(kept) <= MAX_VALUES:
        raise InvalidInput(
            f"Expected 2 to {MAX_VALUES} surrogates with a word vector, got {len(kept)} "
            f"of {len(values)}."
        )
    return tuple(kept), np.stack(points)


def _distances(points: Table) -> Table:
    """Cosine distances, normalised to a maximum of 1."""
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    unit = points / np.where(norms == 0, 1, norms)
    distances = 1 - unit @ unit.T
    np.fill_diagonal(distances, 0)
    distances = np.maximum(distances, 0)
    largest = distances.max()
    return distances / largest if largest > 0 else distances


def _log_channel(distances: Table, scale: float) -> Table:
    scores = -scale * distances
    totals: Table = np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return scores - totals


def _epsilon(distances: Table, scale: float) -> float:
    """The largest log ratio within a column: any output, under any two inputs."""
    rows = _log_channel(distances, scale)
    return float((rows.max(axis=0) - rows.min(axis=0)).max())
