"""The most that may be spent."""

from dataclasses import dataclass

from sottovoce import _validate
from sottovoce.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that may be spent."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidInput(f"Expected a number as the budget's {name}, got {value!r}.")
        _validate.positive("the budget's epsilon", self.epsilon)
        _validate.delta(self.delta, "the budget's delta")
