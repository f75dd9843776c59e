"""The result of an audit: attacks, bounds, exposures and the guarantee they are compared with.

It is written to private/audit.json, since its figures come from the training data. The report reads
it there; the model card shows it only if it was published as audit.json next to run.json.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike

from sottovoce.audit import _checks
from sottovoce.audit.bounds import LowerBound
from sottovoce.audit.bounds.lower_bound import Interval
from sottovoce.audit.duplicates import LeftOut
from sottovoce.audit.exposure import Exposure
from sottovoce.audit.roc import LOW_RATES, Curve, Rate, auc, auc_interval, curve, rate_at
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.io.run import Run
from sottovoce.privacy.guarantee import Guarantee, rounded_down, rounded_up


@dataclass(frozen=True, kw_only=True)
class AttackOutcome:
    """The success of one attack. An AUC is not a privacy bound: 0.5 does not prove privacy."""

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
                auc_interval=Interval(*map(float, data["auc_interval"])),
                rates=tuple(map(_rate, data["rates"])),
                curve=_curve(data["curve"]),
                confidence=float(data["confidence"]),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidInput(f"Expected an attack in JSON, but {problem!r}.") from problem


def _rate(data: Mapping[str, Any]) -> Rate:
    return Rate(
        false_positive_rate=float(data["false_positive_rate"]),
        true_positive_rate=float(data["true_positive_rate"]),
        interval=Interval(*map(float, data["interval"])),
        resolved=bool(data["resolved"]),
    )


def _curve(data: Mapping[str, Any]) -> Curve:
    found = Curve(
        tuple(map(float, data["false_positive_rates"])),
        tuple(map(float, data["true_positive_rates"])),
    )
    if len(found.false_positive_rates) != len(found.true_positive_rates):
        raise ValueError("the two rates of a curve have different lengths")
    return found


def measure(
    attack: str, members: ArrayLike, non_members: ArrayLike, confidence: float = 0.95
) -> AttackOutcome:
    """How well the scores of an attack (higher: more likely a member) separate the two groups.

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
    """Several attacks on the same records, with intervals that hold jointly.

    Reporting the strongest of k attacks is multiple testing, so the intervals have a Bonferroni
    correction.
    """
    if not scores:
        raise InvalidInput("Expected the scores of at least one attack, got none.")
    each = 1 - (1 - confidence) / len(scores)
    return [measure(name, *pair, each) for name, pair in scores.items()]


def strongest(outcomes: Sequence[AttackOutcome]) -> AttackOutcome:
    """The attack with the highest true positive rate at the lowest resolved rate, then by AUC."""
    if not outcomes:
        raise InvalidInput("Expected the outcome of at least one attack, got none.")
    return max(outcomes, key=_strength)


def _strength(outcome: AttackOutcome) -> tuple[float, float]:
    resolved = [rate.true_positive_rate for rate in outcome.rates if rate.resolved]
    return (resolved[0] if resolved else 0.0, outcome.auc)


FILE = "audit.json"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """All results of an audit of one run.

    >>> from sottovoce.audit.bounds import one_run_bound
    >>> result = AuditResult(bounds=(one_run_bound(canaries=100, guesses=100, correct=75,
    ...                                            delta=0.0),))
    >>> round(result.lower_bound.epsilon, 3), result.defects()
    (0.702, [])
    >>> AuditResult.from_json(result.to_json()) == result
    True
    """

    attacks: tuple[AttackOutcome, ...] = ()
    bounds: tuple[LowerBound, ...] = ()
    exposures: tuple[Exposure, ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)
    guarantee: Guarantee | None = None
    notes: tuple[str, ...] = ()
    model: str | None = None
    """SHA-256 of the weights that were attacked, so that nobody takes it for another model's."""

    @property
    def strongest(self) -> AttackOutcome | None:
        """The strongest attack of those that ran."""
        return strongest(self.attacks) if self.attacks else None

    @property
    def lower_bound(self) -> LowerBound | None:
        """The largest bound; each holds at its own confidence, not jointly."""
        return max(self.bounds, key=lambda bound: bound.epsilon, default=None)

    def defects(self) -> list[str]:
        """Bounds that refute the guarantee: the noise, the sampling or the ledger is wrong."""
        if self.guarantee is None or not self.guarantee.holds:
            return []
        return [
            f"The guarantee of epsilon {rounded_up(self.guarantee.epsilon)} at delta "
            f"{self.guarantee.delta:g} is contradicted by a lower bound of "
            f"{rounded_down(bound.epsilon)} ({bound.evidence}; method: {bound.method})."
            for bound in self.bounds
            if not bound.objection(self.guarantee) and bound.contradicts(self.guarantee)
        ]

    def not_compared(self) -> list[str]:
        """Why bounds could not be compared with the guarantee; silence would suggest agreement."""
        if self.guarantee is None or not self.guarantee.holds:
            return []
        found = (bound.objection(self.guarantee) for bound in self.bounds)
        return list(dict.fromkeys(sentence for sentence in found if sentence))

    def to_json(self) -> dict[str, Any]:
        found = self.strongest
        return {
            "audit": VERSION,
            "attacks": [attack.to_json() for attack in self.attacks],
            "strongest": None if found is None else found.attack,
            "bounds": [bound.to_json() for bound in self.bounds],
            "exposures": [exposure.to_json() for exposure in self.exposures],
            "left_out": asdict(self.left_out),
            "guarantee": None if self.guarantee is None else self.guarantee.to_json(),
            "defects": self.defects(),
            "not_compared": self.not_compared(),
            "notes": list(self.notes),
            "model": self.model,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        if not isinstance(data, Mapping) or data.get("audit") != VERSION:
            raise InvalidInput(f'Expected an audit in JSON with "audit": {VERSION}.')
        try:
            return cls(
                attacks=tuple(map(AttackOutcome.from_json, data["attacks"])),
                bounds=tuple(map(LowerBound.from_json, data["bounds"])),
                exposures=tuple(map(Exposure.from_json, data["exposures"])),
                left_out=LeftOut(**data["left_out"]),
                guarantee=Guarantee.from_json(data["guarantee"]) if data["guarantee"] else None,
                notes=tuple(data["notes"]),
                model=None if data.get("model") is None else str(data["model"]),
            )
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidInput(f"Expected an audit in JSON, but {problem!r}.") from problem

    def write(self, folder: Path | str, *, publish: bool = False) -> Path:
        """Write it to the private part of a run folder, or with `publish` to the public part."""
        if not Path(folder).is_dir():
            raise InvalidInput(f"Expected an existing folder for {FILE}, found none at {folder}.")
        if not publish:
            return Run(folder).write_private(FILE, self.to_json())
        path = Run(folder).public(FILE)
        with text_output(path) as stream:
            json.dump(self.to_json(), stream, indent=2, allow_nan=False)
            stream.write("\n")
        return path

    @classmethod
    def read(cls, folder: Path | str) -> Self:
        """Read the audit.json of a run."""
        path = Run(folder).find_private(FILE)
        try:
            return cls.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (json.JSONDecodeError, UnicodeDecodeError) as problem:
            raise InvalidInput(f"Expected JSON in {path}, but {problem}.") from problem
