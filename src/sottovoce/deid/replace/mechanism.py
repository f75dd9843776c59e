"""What a replacement mechanism is: private values of one type in, values to release out.

A mechanism knows its own channel exactly, M(y|x) for every x and y. Its privacy loss is derived
from the channel, tests check it against the channel by brute force, and attacks use the channel as
a well-informed reader would.
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
    "epsilon compares private values written alike (small letters, initials, capitals): which is "
    "released"
)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Within what consistent mechanisms are consistent: whose value it is, and what kind."""

    type: str
    user: str = ""
    document: str = ""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one replaced value costs, in the terms of the ledger.

    Either the kernel (1-p)[y=x] + p pi(y), by p and the least pi of a possible input, or a pure
    epsilon; or neither, with the reason why no epsilon holds. `reveals` says what of a value is
    released besides. Where the surrogates come from is part of the cost, whatever the mechanism.
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
    """What tells a released histogram from all others; drawing from it again costs no more."""

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
        kept, told = 1 - self.replace_probability, self.replace_probability
        if not kept:
            return 0.0
        likelihood = told * self.smallest_probability
        return math.log1p(kept / likelihood) if likelihood else math.inf

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Cost":
        """Read what `to_json` wrote; anything else is refused.

        >>> Cost.from_json(Cost(epsilon=1.0, reveals=("case",)).to_json())
        Cost(replace_probability=1.0, ... reveals=('case',), ...)
        """
        if {*data} != {field.name for field in fields(cls)}:
            raise InvalidInput(f"Expected what a replaced value costs, got {sorted(data)}.")
        told: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        return cls(**told)


class Mechanism(Protocol):
    """Replaces the private values of one type."""

    @property
    def whole(self) -> bool:
        """Whether it replaces a whole value at once, or each of its words."""

    @property
    def scoped(self) -> bool:
        """Whether it asks whose value it is; if not, it may be given no scopes."""

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        """One output for each value; drawn anew every time, unless consistency was asked for."""

    def cost(self) -> Cost:
        """What one value costs."""

    def to_json(self) -> dict[str, Any]:
        """Its configuration, for the release manifest."""


def sources(listed: Surrogates) -> dict[str, Any]:
    """What a list brings into the cost of every mechanism that draws from it."""
    return {
        "surrogates": listed.origin,
        "histogram_epsilon": listed.histogram.get("epsilon", 0.0),
        "histogram_delta": listed.histogram.get("delta", 0.0),
        "histogram": listed.digest if listed.origin is SurrogateSource.DP_HISTOGRAM else "",
    }


def public_forms(*, whole: bool, keep_case: bool) -> tuple[str, ...]:
    """What a reader may know of a value besides its surrogate, as assumptions of a guarantee."""
    unit = (
        "a token is a whole value, however many words it has"
        if whole
        else "epsilon compares private values of as many words: their number is released"
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
