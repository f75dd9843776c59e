"""Third-party mechanisms: their privacy claims are marked as claims.

Their privacy loss is not derived from a channel here. What they state becomes an assumption of the
guarantee, with the name of the module. One that states nothing has no guarantee.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sottovoce.deid.replace.mechanism import Cost, Mechanism, Scope
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource


@dataclass(frozen=True, kw_only=True)
class ThirdParty:
    """A mechanism of a registered third-party strategy, with its claims marked.

    Its cost is read once, so that the statement matches the cost at the time of the release.
    """

    mechanism: Mechanism
    strategy: str
    module: str
    stated: Cost

    @classmethod
    def of(cls, mechanism: Mechanism, strategy: str, module: str) -> "ThirdParty":
        stated = _stated(mechanism, f"the strategy {strategy} of {module}")
        return cls(mechanism=mechanism, strategy=strategy, module=module, stated=stated)

    @property
    def assumption(self) -> str:
        return f"the strategy {self.strategy} of {self.module} is as private as it says"

    @property
    def whole(self) -> bool:
        return bool(getattr(self.mechanism, "whole", True))

    @property
    def scoped(self) -> bool:
        return bool(getattr(self.mechanism, "scoped", False))

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        outputs = list(self.mechanism.replace(values, scopes, source))
        if len(outputs) != len(values) or not all(isinstance(each, str) for each in outputs):
            raise InvalidInput(
                f"Expected a text for each of {len(values)} values from the strategy "
                f"{self.strategy} of {self.module}, got {len(outputs)} outputs."
            )
        return outputs

    def cost(self) -> Cost:
        if self.stated.why_none:
            return self.stated
        return replace(self.stated, assumptions=(*self.stated.assumptions, self.assumption))

    def to_json(self) -> dict[str, Any]:
        described: dict[str, Any] = getattr(self.mechanism, "to_json", dict)()
        return {**described, "mechanism": self.strategy, "module": self.module}


def _stated(mechanism: Mechanism, who: str) -> Cost:
    cost = mechanism.cost() if hasattr(mechanism, "cost") else None
    if cost is None:
        return Cost(why_none=f"{who} states no cost")
    if not isinstance(cost, Cost):
        raise InvalidInput(f"Expected a Cost from {who}, got {cost!r}.")
    if cost.epsilon is None and cost.replace_probability == 1 and not cost.why_none:
        # All fields at their defaults: no cost was stated.
        return replace(cost, why_none=f"{who} states no epsilon")
    return cost
