"""What one attack achieved, with intervals, as JSON both ways; and which attack was strongest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import ArrayLike

from sottovoce.audit import _checks
from sottovoce.audit.bounds.counts import Interval
from sottovoce.audit.roc import LOW_RATES, Curve, Rate, auc, auc_interval, curve, rate_at
from sottovoce.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class AttackOutcome:
    """The success of one attack. An AUC is no privacy bound: 0.5 proves nothing about anyone."""

    attack: str
    members: int
    non_members: int
    auc: float
    auc_interval: Interval
    rates: tuple[Rate, ...]
    curve: Curve
    confidence: float

    def __str__(self) -> str:
        rates = ", ".join(
            f"{rate.true_positive_rate:.1%} at {rate.false_positive_rate:.1%} false positives"
            + ("" if rate.resolved else " (too few non-members to resolve)")
            for rate in self.rates
        )
        low, high = self.auc_interval
        return f"{self.attack}: AUC {self.auc:.3f} [{low:.3f}, {high:.3f}]; members found: {rates}"

    def to_json(self) -> dict[str, Any]:
        return {
            "attack": self.attack,
            "members": self.members,
            "non_members": self.non_members,
            "auc": self.auc,
            "auc_interval": list(self.auc_interval),
            "rates": [
                {
                    "false_positive_rate": rate.false_positive_rate,
                    "true_positive_rate": rate.true_positive_rate,
                    "interval": list(rate.interval),
                    "resolved": rate.resolved,
                }
                for rate in self.rates
            ],
            "curve": {name: list(values) for name, values in self.curve._asdict().items()},
            "confidence": self.confidence,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        try:
            return cls(
                attack=str(data["attack"]),
                members=int(data["members"]),
                non_members=int(data["non_members"]),
                auc=float(data["auc"]),
                auc_interval=Interval(*data["auc_interval"]),
                rates=tuple(
                    Rate(**dict(rate) | {"interval": Interval(*rate["interval"])})
                    for rate in data["rates"]
                ),
                curve=Curve(
                    **{name: tuple(points) for name, points in dict(data["curve"]).items()}
                ),
                confidence=float(data["confidence"]),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidInput(f"Expected an attack in JSON, but {problem!r}.") from problem


def measure(
    attack: str, members: ArrayLike, non_members: ArrayLike, confidence: float = 0.95
) -> AttackOutcome:
    """How well the scores of an attack (higher: rather a member) tell the two groups apart.

    >>> print(measure("loss threshold", [-0.1, -0.2, -0.3], [-0.25, -0.9, -0.8]))
    loss threshold: AUC 0.889 [0.261, 0.995]; members found: 66.7% at 0.1% false positives (too few
    non-members to resolve), 66.7% at 1.0% false positives (too few non-members to resolve)
    """
    members = _checks.scores("the members' scores", members)
    non_members = _checks.scores("the non-members' scores", non_members)
    return AttackOutcome(
        attack=attack,
        members=members.size,
        non_members=non_members.size,
        auc=auc(members, non_members),
        auc_interval=auc_interval(members, non_members, confidence),
        rates=tuple(rate_at(members, non_members, rate, confidence) for rate in LOW_RATES),
        curve=curve(members, non_members),
        confidence=confidence,
    )


def measure_all(
    scores: Mapping[str, tuple[ArrayLike, ArrayLike]], confidence: float = 0.95
) -> list[AttackOutcome]:
    """Several attacks on the same records, with intervals that hold for all of them together.

    Whoever looks at k attacks and reports the strongest has k chances to be lucky, so each
    interval errs with a k-th of the risk.
    """
    if not scores:
        raise InvalidInput("Expected the scores of at least one attack, got none.")
    each = 1 - (1 - confidence) / len(scores)
    return [measure(name, *pair, each) for name, pair in scores.items()]


def strongest(outcomes: Sequence[AttackOutcome]) -> AttackOutcome:
    """The attack that finds most members at the smallest rate that can be resolved, then by AUC."""
    if not outcomes:
        raise InvalidInput("Expected the outcome of at least one attack, got none.")
    return max(outcomes, key=_strength)


def _strength(outcome: AttackOutcome) -> tuple[float, float]:
    resolved = [rate.true_positive_rate for rate in outcome.rates if rate.resolved]
    return (resolved[0] if resolved else 0.0, outcome.auc)
