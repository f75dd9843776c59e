"""The token kernel of Adelani et al.: keep a value with probability 1-p, else draw from pi.

M(y|x) = (1-p)[y=x] + p pi(y), hence epsilon = ln(1 + (1-p)/(p pi_min)), and inversely p = 1 / (1 +
(e^epsilon - 1) pi_min). A value outside the list is never a surrogate of another value, so it is
always replaced; epsilon stays the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sottovoce import _validate
from sottovoce.deid.replace.letters import canonical, match_case
from sottovoce.deid.replace.mechanism import Cost, Scope, form_assumptions, source_cost
from sottovoce.deid.replace.surrogates import Surrogates
from sottovoce.privacy.noise import NoiseSource, keep_or_replace
from sottovoce.privacy.recipes.deid import replace_probability


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Replaces whole values, or each word of a value, by surrogates.

    >>> from sottovoce.deid.replace.surrogates import uniform
    >>> kernel = Kernel.for_epsilon(1.0, uniform(["rome", "oslo", "lima", "bern"]))
    >>> round(kernel.p, 6)
    0.699511
    """

    surrogates: Surrogates
    p: float = 1.0
    whole: bool = True
    scoped: ClassVar[bool] = False
    keep_case: bool = True

    def __post_init__(self) -> None:
        _validate.probability("p", self.p)

    @classmethod
    def for_epsilon(
        cls, epsilon: float, surrogates: Surrogates, *, whole: bool = True, keep_case: bool = True
    ) -> "Kernel":
        """The kernel with the largest keep probability at this epsilon."""
        p = replace_probability(epsilon, surrogates.min_probability)
        return cls(surrogates=surrogates, p=p, whole=whole, keep_case=keep_case)

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        listed = self.surrogates.values
        drawn = self.surrogates.distribution.draw(len(values), source).tolist()
        outputs = [listed[place] for place in drawn]
        if self.p < 1:
            coins = keep_or_replace(len(values), self.p, source).tolist()
            for place, coin in enumerate(coins):
                if not coin:
                    value = canonical(values[place])
                    if value in self.surrogates.index:
                        outputs[place] = value
        if not self.keep_case:
            return outputs
        return [match_case(out, value) for out, value in zip(outputs, values, strict=True)]

    def channel(self, value: str) -> dict[str, float]:
        """M(.|value), in canonical form."""
        row = dict(self.surrogates.probabilities)
        if value in row:
            row = {output: self.p * chance for output, chance in row.items()}
            row[value] += 1 - self.p
        return row

    def cost(self) -> Cost:
        return Cost(
            replace_probability=self.p,
            smallest_probability=self.surrogates.min_probability,
            assumptions=(
                *form_assumptions(whole=self.whole, keep_case=self.keep_case),
                *self.surrogates.assumptions,
            ),
            **source_cost(self.surrogates),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": "kernel",
            "p": self.p,
            "whole": self.whole,
            "keep_case": self.keep_case,
            "surrogates": self.surrogates.to_json(),
        }
