"""What a replacement mechanism is: private values of one type in, values to release out.

A mechanism knows its own channel exactly, M(y|x) for every x and y. Its privacy loss is derived
from the channel, tests check it against the channel by brute force, and attacks use the channel as
a well-informed reader would.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce.privacy.noise import NoiseSource


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
    released besides.
    """

    replace_probability: float = 1.0
    smallest_probability: float = 0.0
    epsilon: float | None = None
    why_none: str = ""
    assumptions: tuple[str, ...] = ()
    reveals: tuple[str, ...] = ()


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


def public_forms(*, whole: bool, keep_case: bool) -> tuple[str, ...]:
    """What a reader may know of a value besides its surrogate, as assumptions of a guarantee."""
    unit = (
        "a token is a whole value, however many words it has"
        if whole
        else "the number of words of a private value may be known"
    )
    return (unit, "the letter case of a private value may be known") if keep_case else (unit,)


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
