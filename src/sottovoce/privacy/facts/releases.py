"""Facts about mechanisms known only by their epsilon and delta, and about unprotected releases."""

from dataclasses import dataclass
from typing import ClassVar

from sottovoce import _validate
from sottovoce.privacy.accountants.losses import ApproximateLoss, Loss, PureLoss
from sottovoce.privacy.facts.fact import Fact
from sottovoce.privacy.guarantee import Notion, Relation


@dataclass(frozen=True, kw_only=True)
class BoundedRelease(Fact):
    """A mechanism known only by its epsilon and delta: m-ary randomised response, the exponential
    mechanism, a thresholded histogram. `mechanism` is its name, for display."""

    mechanism: str
    epsilon: float
    delta: float = 0.0

    kind: ClassVar[str] = "bounded-release"

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.not_negative("epsilon", self.epsilon)
        _validate.delta(self.delta)

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        if self.delta:
            return [(ApproximateLoss(self.epsilon, self.delta), 1)]
        return [(PureLoss(self.epsilon), 1)]


@dataclass(frozen=True, kw_only=True)
class MetricRelease(Fact):
    """Metric differential privacy: epsilon per unit of distance, never added to plain epsilon."""

    mechanism: str
    epsilon: float

    kind: ClassVar[str] = "metric-release"
    notion: ClassVar[Notion] = Notion.METRIC_DP

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.not_negative("epsilon", self.epsilon)

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        return [(PureLoss(self.epsilon), 1)]


@dataclass(frozen=True, kw_only=True)
class Unprotected(Fact):
    """A release without protection; the ledger records the reason and gives no epsilon."""

    reason: str

    kind: ClassVar[str] = "unprotected"

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        return []

    def objections(self, relation: Relation) -> list[str]:
        return [self.reason]
