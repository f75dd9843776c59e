"""Truncated k-ary randomised response: the epsilon of the token kernel with far more kept values.

Only the m most frequent public candidates are ever released. A value among them is kept with
probability e^epsilon / (e^epsilon + m - 1), otherwise another candidate is drawn uniformly; a value
outside is replaced by a uniform candidate. The channel row of an outside value is the mean of the
inside rows, so no pair of inputs is easier to distinguish than two inside values: the kernel with p
= m / (e^epsilon + m - 1) and pi = 1/m states the loss exactly. m is chosen to keep the most values
under the public weights.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce.deid.replace.forms import canonical, match_case
from sottovoce.deid.replace.mechanism import Cost, Scope, form_assumptions
from sottovoce.deid.replace.surrogates import Surrogates
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import SurrogateSource
from sottovoce.privacy.noise import NoiseSource, randomised_response


@dataclass(frozen=True, kw_only=True)
class TruncatedResponse:
    """Randomised response among `candidates`.

    >>> ranks = range(1, 1001)
    >>> zipf = Surrogates(tuple(f"w{rank}" for rank in ranks), tuple(1 / rank for rank in ranks))
    >>> response = TruncatedResponse.for_epsilon(3.0, zipf)
    >>> len(response.candidates), round(kept_truth(9, 3.0, zipf), 2)
    (9, 0.27)
    """

    candidates: tuple[str, ...]
    epsilon: float
    whole: bool = True
    scoped: ClassVar[bool] = False
    keep_case: bool = True
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _validate.not_negative("epsilon", self.epsilon)
        if len({*self.candidates}) != len(self.candidates) or len(self.candidates) < 2:
            raise InvalidInput(
                f"Expected at least two different candidates, got {len(self.candidates)}."
            )

    @classmethod
    def for_epsilon(
        cls, epsilon: float, surrogates: Surrogates, *, whole: bool = True, keep_case: bool = True
    ) -> "TruncatedResponse":
        """The mechanism whose m keeps the most values at this epsilon."""
        _validate.not_negative("epsilon", epsilon)
        if surrogates.origin is not SurrogateSource.PUBLIC or surrogates.histogram:
            raise InvalidInput(
                "Expected public surrogates for randomised response, got a list counted in the "
                "corpus: its most frequent values would be released."
            )
        counts = np.arange(1, len(surrogates.values) + 1)
        truth = _masses(surrogates) / (1 + (counts - 1) * math.exp(-epsilon))
        return cls(
            candidates=surrogates.most_likely(2 + int(np.argmax(truth[1:]))),
            epsilon=epsilon,
            whole=whole,
            keep_case=keep_case,
            assumptions=surrogates.assumptions,
        )

    @cached_property
    def _index(self) -> dict[str, int]:
        return {value: place for place, value in enumerate(self.candidates)}

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        m = len(self.candidates)
        uniform = source.integers(m, len(values)).tolist()
        found = [self._index.get(canonical(value)) for value in values]
        # For an outside value, randomised response on a uniform candidate is a uniform draw.
        truth = [other if own is None else own for own, other in zip(found, uniform, strict=True)]
        drawn = randomised_response(truth, m, self.epsilon, source).tolist()
        outputs = [self.candidates[place] for place in drawn]
        if not self.keep_case:
            return outputs
        return [match_case(out, value) for out, value in zip(outputs, values, strict=True)]

    def channel(self, value: str) -> dict[str, float]:
        """M(.|value), in canonical form."""
        m = len(self.candidates)
        if value not in self._index:
            return dict.fromkeys(self.candidates, 1 / m)
        row = dict.fromkeys(self.candidates, 1 / (math.exp(self.epsilon) + m - 1))
        row[value] *= math.exp(self.epsilon)
        return row

    def cost(self) -> Cost:
        m = len(self.candidates)
        return Cost(
            replace_probability=m / (math.exp(self.epsilon) + m - 1) if self.epsilon < 700 else 0.0,
            smallest_probability=1 / m,
            assumptions=(
                *form_assumptions(whole=self.whole, keep_case=self.keep_case),
                *self.assumptions,
            ),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": "truncated randomised response",
            "epsilon": self.epsilon,
            "candidates": len(self.candidates),
            "whole": self.whole,
            "keep_case": self.keep_case,
        }


def kept_truth(count: int, epsilon: float, surrogates: Surrogates) -> float:
    """Probability that a value is kept with `count` candidates, if values follow the weights."""
    return float(_masses(surrogates)[count - 1]) / (1 + (count - 1) * math.exp(-epsilon))


def _masses(surrogates: Surrogates) -> NDArray[np.float64]:
    """Cumulative share of the most frequent values."""
    weights = np.sort(np.array(surrogates.weights))[::-1]
    shares: NDArray[np.float64] = np.cumsum(weights) / weights.sum()
    return shares
