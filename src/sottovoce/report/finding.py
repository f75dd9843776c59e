"""One thing that a policy found, and how much it matters."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

from sottovoce import _validate


class Level(StrEnum):
    RED = "red"
    AMBER = "amber"
    GREEN = "green"


class Weight(IntEnum):
    """What matters most comes first: forged evidence makes every other number worthless."""

    FORGERY = 0
    LEAK = 1
    GUARANTEE = 2
    PERSON = 3
    EPSILON = 4
    ASSUMPTION = 5
    EVIDENCE = 6
    UNMEASURED = 7


@dataclass(frozen=True)
class Finding:
    """A rule of the policy, what was found about a stage, and what follows."""

    level: Level
    weight: Weight
    stage: str
    rule: str
    sentence: str

    def __post_init__(self) -> None:
        _validate.parse_choices(self)

    @property
    def order(self) -> tuple[int, int]:
        return list(Level).index(self.level), int(self.weight)

    def to_json(self) -> dict[str, Any]:
        return {
            "level": str(self.level),
            "stage": self.stage,
            "rule": self.rule,
            "sentence": self.sentence,
        }
