"""The token kernel of Adelani et al.: keep a value with probability 1-p, else draw from pi.

M(y|x) = (1-p)[y=x] + p pi(y), hence epsilon = ln(1 + (1-p)/(p pi_min)), and inversely p = 1 / (1 +
(e^epsilon - 1) pi_min). A value outside the list is never a surrogate of another value, so it is
always replaced; epsilon stays the same.

`WithinClass` has one kernel per class of values (see `forms`), over the surrogates of the class, so
that grammar still agrees. The class of a value is then released: epsilon compares two values of the
same class; between classes there is no bound at all, and the statement names the attribute.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from sottovoce import _validate
from sottovoce.deid.replace.digits import Redrawn
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
    """One kernel per class; classes of digits and initials are `redrawn` instead.

    Classes with fewer than two surrogates draw from the whole list.

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
    redrawn: Mapping[str, Redrawn] = field(default_factory=dict)
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
        redrawn: Mapping[str, Redrawn] | None = None,
        whole: bool = True,
        keep_case: bool = True,
    ) -> "WithinClass":
        """The kernels for p, or for an epsilon per value within its class."""
        if surrogates.origin is not SurrogateSource.PUBLIC or surrogates.histogram:
            raise InvalidInput(
                "Expected public surrogates for replacement within classes, got a list counted in "
                "the corpus."
            )

        def kernel(listed: Surrogates) -> Kernel:
            if epsilon is not None:
                return Kernel.for_epsilon(epsilon, listed, whole=whole, keep_case=keep_case)
            return Kernel(surrogates=listed, p=p, whole=whole, keep_case=keep_case)

        parts: dict[str, dict[str, float]] = {}
        for value, weight in zip(surrogates.values, surrogates.weights, strict=True):
            parts.setdefault(classes(value), {})[value] = weight
        redrawn = redrawn or {}
        return cls(
            kernels={
                name: kernel(
                    replace(
                        surrogates,
                        values=tuple(part),
                        weights=tuple(part.values()),
                        name=f"{surrogates.name} {name}",
                    )
                )
                for name, part in parts.items()
                if len(part) > 1 and name not in redrawn
            },
            rest=kernel(surrogates),
            attribute=attribute,
            classes=classes,
            redrawn=redrawn,
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
            drawn = self._of(name).replace([values[place] for place in places], [], source)
            for place, output in zip(places, drawn, strict=True):
                outputs[place] = output
        return outputs

    def channel(self, value: str) -> dict[str, float]:
        """M(.|value), in canonical form."""
        return self._of(self.classes(value)).channel(value)

    def form(self, value: str) -> str:
        """The class of a value, with its format where it is redrawn: epsilon holds within it."""
        name = self.classes(value)
        redrawn = self.redrawn.get(name)
        return name if redrawn is None else f"{name} {redrawn.form(value)}"

    def _of(self, name: str) -> Kernel | Redrawn:
        return self.redrawn.get(name) or self.kernels.get(name, self.rest)

    @property
    def costliest(self) -> Kernel | None:
        """The kernel that dominates the others, if one does.

        delta(epsilon) of a kernel is 1-p - p pi_min (e^epsilon - 1), or 0. It is linear in
        e^epsilon, so the kernel with the largest value at 0 and the largest root dominates.
        """
        kernels = [*self.kernels.values(), self.rest]
        worst = max(kernels, key=lambda kernel: (1 - kernel.p, _log_ratio(kernel)))
        most = max(map(_log_ratio, kernels))
        return worst if _log_ratio(worst) >= most * (1 - 1e-12) else None

    def cost(self) -> Cost:
        """The cost of the costliest class; where none is, a pure epsilon bounds them all."""
        kernel, most = self.costliest, max(map(_log_ratio, [*self.kernels.values(), self.rest]))
        kernels = [*self.kernels.values(), self.rest]
        least = min(each.p * each.surrogates.min_probability for each in kernels)
        classes = ", ".join(sorted([*self.kernels, *self.redrawn]))
        assumed = (
            *form_assumptions(whole=self.whole, keep_case=self.keep_case),
            *self.rest.surrogates.assumptions,
            f"epsilon compares private values of one class: the {self.attribute} may be known",
        )
        reveals: tuple[str, ...] = (f"the {self.attribute} is released as it is ({classes})",)
        if self.redrawn:
            assumed += ("dates and times in digits, and initials, are compared in one format",)
            reveals += ("the format of digits and initials is released as it is",)
        if kernel is None:
            return Cost(
                epsilon=most,
                smallest_probability=least,
                assumptions=assumed,
                reveals=reveals,
            )
        return Cost(
            replace_probability=kernel.p,
            smallest_probability=kernel.surrogates.min_probability,
            assumptions=assumed,
            reveals=reveals,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": "kernel within classes",
            "attribute": self.attribute,
            "classes": {
                name: self._of(name).to_json() for name in sorted({*self.kernels, *self.redrawn})
            },
            "others": self.rest.to_json(),
        }


def _log_ratio(kernel: Kernel) -> float:
    return kernel.cost().log_ratio
