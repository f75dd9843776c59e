"""The token kernel of Adelani et al.: keep a value with probability 1-p, else draw from pi.

M(y|x) = (1-p)[y=x] + p pi(y), hence epsilon = ln(1 + (1-p)/(p pi_min)), and inversely p = 1 / (1 +
(e^epsilon - 1) pi_min). A value outside the list is never a surrogate of another value, so it is
always replaced; epsilon stays the same.

`WithinClass` has one kernel per class of values (see `forms`), over the surrogates of the class, so
that grammar still agrees. The class of a value is then released: epsilon compares two values of the
same class; between classes there is no bound at all, and the statement names the attribute.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sottovoce import _validate
from sottovoce.deid.replace.forms import Classes, canonical, match_case
from sottovoce.deid.replace.mechanism import Cost, Scope, form_assumptions, source_cost
from sottovoce.deid.replace.surrogates import Surrogates
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import SurrogateSource
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


@dataclass(frozen=True, kw_only=True)
class WithinClass:
    """One kernel per class. Classes with fewer than two surrogates draw from the whole list.

    >>> from sottovoce.deid.replace.forms import gender
    >>> from sottovoce.deid.replace.surrogates import uniform
    >>> names = uniform(["maria", "anna", "john", "david"])
    >>> mechanism = WithinClass.of(names, "gender of a name", gender, p=0.5)
    >>> mechanism.channel("maria")
    {'maria': 0.75, 'anna': 0.25}
    """

    kernels: Mapping[str, Kernel]
    rest: Kernel
    attribute: str
    classes: Classes
    whole: bool = True
    keep_case: bool = True
    scoped: ClassVar[bool] = False

    @classmethod
    def of(
        cls,
        surrogates: Surrogates,
        attribute: str,
        classes: Classes,
        *,
        p: float = 1.0,
        epsilon: float | None = None,
        whole: bool = True,
        keep_case: bool = True,
    ) -> "WithinClass":
        """The kernels for p, or for an epsilon per value within its class."""
        if surrogates.origin is not SurrogateSource.PUBLIC or surrogates.histogram:
            raise InvalidInput(
                "Expected public surrogates for like-for-like replacement, got a list counted in "
                "the corpus."
            )

        def kernel(listed: Surrogates) -> Kernel:
            if epsilon is not None:
                return Kernel.for_epsilon(epsilon, listed, whole=whole, keep_case=keep_case)
            return Kernel(surrogates=listed, p=p, whole=whole, keep_case=keep_case)

        parts: dict[str, dict[str, float]] = {}
        for value, weight in zip(surrogates.values, surrogates.weights, strict=True):
            parts.setdefault(classes(value), {})[value] = weight
        return cls(
            kernels={
                name: kernel(
                    Surrogates(tuple(part), tuple(part.values()), name=f"{surrogates.name} {name}")
                )
                for name, part in parts.items()
                if len(part) > 1
            },
            rest=kernel(surrogates),
            attribute=attribute,
            classes=classes,
            whole=whole,
            keep_case=keep_case,
        )

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        groups: dict[str, list[int]] = {}
        for place, value in enumerate(values):
            groups.setdefault(self.classes(canonical(value)), []).append(place)
        outputs = [""] * len(values)
        for name, places in groups.items():
            drawn = self._kernel(name).replace([values[place] for place in places], [], source)
            for place, output in zip(places, drawn, strict=True):
                outputs[place] = output
        return outputs

    def channel(self, value: str) -> dict[str, float]:
        """M(.|value), in canonical form."""
        return self._kernel(self.classes(value)).channel(value)

    def _kernel(self, name: str) -> Kernel:
        return self.kernels.get(name, self.rest)

    def cost(self) -> Cost:
        """The cost of the worst class, as a pure epsilon, since that dominates all kernels."""
        kernels = [*self.kernels.values(), self.rest]
        losses = [(1 - kernel.p) / kernel.p if kernel.p else math.inf for kernel in kernels]
        worst = max(
            math.log1p(loss / kernel.surrogates.min_probability)
            for loss, kernel in zip(losses, kernels, strict=True)
        )
        classes = ", ".join(sorted(self.kernels))
        unbounded = math.isinf(worst)
        return Cost(
            replace_probability=0.0 if unbounded else 1.0,
            epsilon=None if unbounded else worst,
            smallest_probability=min(
                kernel.p * kernel.surrogates.min_probability for kernel in kernels
            ),
            assumptions=(
                *form_assumptions(whole=self.whole, keep_case=self.keep_case),
                *self.rest.surrogates.assumptions,
                f"epsilon compares private values of one class: the {self.attribute} may be known",
            ),
            reveals=(f"the {self.attribute} is released as it is ({classes})",),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": "kernel within classes",
            "attribute": self.attribute,
            "classes": {name: kernel.to_json() for name, kernel in sorted(self.kernels.items())},
            "others": self.rest.to_json(),
        }
