"""The interface of a replacement mechanism: private values of one type in, released values out.

A mechanism knows its exact channel M(y|x) for every x and y. Its privacy loss is derived from the
channel, tests verify the loss against the channel by brute force, and attacks use the channel as a
well-informed attacker would.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

from sottovoce import _validate
from sottovoce.deid.replace.surrogates import Surrogates
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import SurrogateSource
from sottovoce.privacy.noise import NoiseSource

SAME_CASE = (
    "epsilon compares private values of the same letter case (lower case, initials, capitals): the "
    "case is released"
)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The scope of consistency: the type, the user and the document of a value."""

    type: str
    user: str = ""
    document: str = ""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one replaced value, in ledger terms.

    Either the kernel (1-p)[y=x] + p pi(y), given by p and the smallest pi of a possible input, or a
    pure epsilon; or neither, with the reason why no epsilon holds. `reveals` lists what else is
    released about a value. The origin of the surrogates is part of the cost of every mechanism.
    """

    replace_probability: float = 1.0
    smallest_probability: float = 0.0
    epsilon: float | None = None
    why_none: str = ""
    assumptions: tuple[str, ...] = ()
    reveals: tuple[str, ...] = ()
    surrogates: SurrogateSource = SurrogateSource.PUBLIC
    histogram_epsilon: float = 0.0
    histogram_delta: float = 0.0
    histogram: str = ""
    """Identifies a released histogram; drawing from the same one again adds no cost."""

    def __post_init__(self) -> None:
        _validate.parse_choices(self)
        _validate.probability("replace_probability", self.replace_probability)
        _validate.between("smallest_probability", self.smallest_probability, 0.0, 0.5)
        if self.epsilon is not None:
            _validate.not_negative("epsilon", self.epsilon)
        _validate.not_negative("histogram_epsilon", self.histogram_epsilon)
        _validate.delta(self.histogram_delta, "histogram_delta")

    @property
    def log_ratio(self) -> float:
        """The pure epsilon of one value."""
        if self.why_none:
            return math.inf
        if self.epsilon is not None:
            return self.epsilon
        kept = 1 - self.replace_probability
        if not kept:
            return 0.0
        likelihood = self.replace_probability * self.smallest_probability
        return math.log1p(kept / likelihood) if likelihood else math.inf

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Cost":
        """Read the output of `to_json`; anything else is rejected.

        >>> Cost.from_json(Cost(epsilon=1.0, reveals=("case",)).to_json())
        Cost(replace_probability=1.0, ... reveals=('case',), ...)
        """
        if {*data} != {field.name for field in fields(cls)}:
            raise InvalidInput(f"Expected the cost of a replaced value, got {sorted(data)}.")
        arguments: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        return cls(**arguments)


class Mechanism(Protocol):
    """Replaces the private values of one type."""

    @property
    def whole(self) -> bool:
        """Whether it replaces a whole value at once, rather than each of its words."""

    @property
    def scoped(self) -> bool:
        """Whether it needs scopes; if not, `scopes` may be empty."""

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        """One output per value; drawn independently, unless the mechanism is consistent."""

    def cost(self) -> Cost:
        """The cost of one value."""

    def to_json(self) -> dict[str, Any]:
        """Its configuration, for the release manifest."""


def source_cost(listed: Surrogates) -> dict[str, Any]:
    """The part of the cost that comes from a surrogate list."""
    return {
        "surrogates": listed.origin,
        "histogram_epsilon": listed.histogram.get("epsilon", 0.0),
        "histogram_delta": listed.histogram.get("delta", 0.0),
        "histogram": listed.digest if listed.origin is SurrogateSource.DP_HISTOGRAM else "",
    }


def form_assumptions(*, whole: bool, keep_case: bool) -> tuple[str, ...]:
    """What else a reader may know about a value, as assumptions of a guarantee."""
    unit = (
        "a token is a whole value, however many words it has"
        if whole
        else "epsilon compares private values with the same number of words: it is released"
    )
    return (unit, SAME_CASE) if keep_case else (unit,)


def channel_epsilon(rows: Iterable[Mapping[str, float]]) -> float:
    """The exact epsilon of a channel: the largest log ratio of any output under two inputs.

    >>> channel_epsilon([{"a": 0.75, "b": 0.25}, {"a": 0.25, "b": 0.75}]) == math.log(3)
    True
    """
    inputs = list(rows)
    worst = 0.0
    for output in {output for row in inputs for output in row}:
        chances = [row.get(output, 0.0) for row in inputs]
        if max(chances) > 0:
            low = min(chances)
            worst = max(worst, math.log(max(chances) / low) if low else math.inf)
    return worst
