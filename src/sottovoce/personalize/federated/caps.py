"""Caps: the most that one user may contribute."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.recipes.federate import Cap


@dataclass(frozen=True)
class Caps:
    """The most that one user may contribute, in counts; `None` is no cap.

    A lifetime is that of the client's cache: whoever starts another cache starts another lifetime,
    which has to be paid again (see `ReleasePlan.fact`).
    """

    mass: float | None = None
    per_word: float | None = None
    span: Cap = Cap.LIFETIME

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        for name, value in (("mass cap", self.mass), ("word cap", self.per_word)):
            if value is not None:
                _validate.positive(name, value)

    def in_units(self, unit: int) -> tuple[float, float]:
        """Both caps in units of counting; whole ones where units are whole."""

        def scaled(cap: float | None) -> float:
            if cap is None:
                return math.inf
            return math.floor(cap * unit) if unit > 1 else cap

        return scaled(self.mass), scaled(self.per_word)

    def to_json(self) -> list[Any]:
        return [self.mass, self.per_word, str(self.span)]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> "Caps":
        try:
            mass, per_word, span = data
        except (TypeError, ValueError) as problem:
            raise InvalidInput(f"Expected a mass cap, a word cap and a span: {problem}.") from None
        return cls(mass, per_word, span)
