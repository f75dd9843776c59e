"""Like-for-like replacement: a surrogate of the same class, so that grammar still agrees.

There is one token kernel per class, over the surrogates of the class, so the class of a value is
always released. Epsilon compares two values of the same class; between classes there is no bound at
all, and the statement names the attribute.

The class is determined by public means: a list of names, or the ending of the last word. Names that
are not in the list form a separate class.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, ClassVar

from sottovoce.deid.replace.kernel import Kernel
from sottovoce.deid.replace.letters import canonical
from sottovoce.deid.replace.mechanism import Cost, Scope, form_assumptions
from sottovoce.deid.replace.surrogates import Surrogates
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import SurrogateSource
from sottovoce.privacy.noise import NoiseSource

Classes = Callable[[str], str]
"""The class of a value in canonical form."""


def _listed(name: str) -> frozenset[str]:
    path = resources.files("sottovoce.deid.replace") / "names" / f"{name}.txt"
    return frozenset(path.read_text(encoding="utf-8").split())


_FEMININE, _MASCULINE = _listed("feminine"), _listed("masculine")
_NO_PLURALS = ("ss", "us", "is")


def gender(name: str) -> str:
    """The usual gender of the first word of a name.

    >>> gender("maria lopez"), gender("john"), gender("zebediah")
    ('feminine', 'masculine', 'not in the list')
    """
    first = name.split(" ")[0].removesuffix("'s")
    if first in _FEMININE:
        return "feminine"
    return "masculine" if first in _MASCULINE else "not in the list"


def number(noun: str) -> str:
    """Whether the last word of a value ends like a plural.

    >>> number("night sweats"), number("cough"), number("arthritis")
    ('plural', 'singular', 'singular')
    """
    last = noun.split(" ")[-1].removesuffix("'s")
    return "plural" if last.endswith("s") and not last.endswith(_NO_PLURALS) else "singular"


ATTRIBUTES: Mapping[str, tuple[str, Classes]] = {
    "PER": ("gender of a name", gender),
    "MEDICAL": ("grammatical number", number),
    "TITLE": ("grammatical number", number),
}
"""For each type, the name of its attribute and the function that computes it."""


@dataclass(frozen=True, kw_only=True)
class WithinClass:
    """One kernel per class. Classes with fewer than two surrogates draw from the whole list.

    >>> from sottovoce.deid.replace.within_class import gender
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
