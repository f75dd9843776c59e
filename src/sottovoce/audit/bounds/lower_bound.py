"""Lower bounds on epsilon at a given confidence, the results of audits; bounds from counts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from scipy.special import betaincinv, ndtri

from sottovoce import _validate
from sottovoce.audit import _checks
from sottovoce.errors import CannotAccount, InvalidInput
from sottovoce.privacy.accountants import gaussian
from sottovoce.privacy.guarantee import (
    Guarantee,
    Relation,
    number_from_json,
    number_to_json,
    rounded_down,
)


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """At `delta`, epsilon is at least this, except with probability 1 - confidence.

    It is evidence *against* a guarantee, never for one: a bound of 0 means that this attack, with
    this many guesses, showed nothing.

    `mu` is set if the bound holds for Gaussian mechanisms only; epsilon is then that of `mu`.

    >>> bound = LowerBound(epsilon=2.468, delta=1e-5, confidence=0.95, method="one-run",
    ...                    evidence="97 of 100 guesses were right")
    >>> print(bound)
    With 95 % confidence epsilon is at least 2.46 at delta 1e-05, so a smaller epsilon claimed for
    this training is false (97 of 100 guesses were right; method: one-run).
    >>> LowerBound.from_json(bound.to_json()) == bound
    True
    """

    epsilon: float
    delta: float
    confidence: float
    method: str
    evidence: str
    mu: float | None = None
    relation: Relation = Relation.ADD_OR_REMOVE

    def __post_init__(self) -> None:
        _validate.parse_choices(self)
        _validate.number("epsilon", self.epsilon)
        if not self.epsilon >= 0:
            raise InvalidInput(f"Expected epsilon >= 0, got {self.epsilon:g}.")
        _validate.delta(self.delta)
        _checks.confidence(self.confidence)

    def contradicts(self, guarantee: Guarantee) -> bool:
        """Whether the bound refutes the guarantee; one that does not hold cannot be refuted."""
        if not guarantee.holds:
            return False
        if objection := self.objection(guarantee):
            raise CannotAccount(objection)
        return self.epsilon > guarantee.epsilon

    def objection(self, guarantee: Guarantee) -> str | None:
        """Why the bound and the guarantee cannot be compared; None if they can."""
        if guarantee.relation is not self.relation:
            return (
                f"Expected a guarantee under {self.relation}, as the audit tested it, got one "
                f"under {guarantee.relation}."
            )
        if guarantee.delta > self.delta:
            return (
                f"Expected a guarantee at a delta of at most {self.delta:g}, as the audit tested "
                f"it, got {guarantee.delta:g}: repeat the audit at that delta."
            )
        return None

    def __str__(self) -> str:
        """One sentence that states the bound and its evidence."""
        share = f"{100 * self.confidence:g} %"
        how = f"({self.evidence}; method: {self.method})"
        if self.epsilon == 0:
            return (
                f"No leak was shown, which is not evidence of safety: at {share} confidence and "
                f"delta {self.delta:g} chance alone explains the result {how}."
            )
        kind = "" if self.mu is None else ", if the mechanism is Gaussian,"
        return (
            f"With {share} confidence{kind} epsilon is at least {rounded_down(self.epsilon)} at "
            f"delta {self.delta:g}, so a smaller epsilon claimed for this training is false {how}."
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon_lower": number_to_json(self.epsilon),
            "delta": self.delta,
            "confidence": self.confidence,
            "method": self.method,
            "evidence": self.evidence,
            "relation": str(self.relation),
        } | ({} if self.mu is None else {"mu_lower": self.mu})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        try:
            mu = data.get("mu_lower")
            return cls(
                epsilon=number_from_json(data["epsilon_lower"]),
                delta=float(data["delta"]),
                confidence=float(data["confidence"]),
                method=str(data["method"]),
                evidence=str(data["evidence"]),
                mu=None if mu is None else float(mu),
                relation=Relation(data["relation"]),
            )
        except InvalidInput:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as problem:
            raise InvalidInput(f"Expected a lower bound in JSON, but {problem!r}.") from problem


METHOD = "Clopper-Pearson"


class Interval(NamedTuple):
    low: float
    high: float


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """The exact two-sided interval of a probability; each side errs with half of 1 - confidence.

    >>> low, high = clopper_pearson(20, 500)
    >>> round(low, 4), round(high, 4)
    (0.0246, 0.0611)
    """
    _validate.at_least_one("trials", trials)
    _checks.part_of("successes", successes, "trials", trials)
    tail = (1 - _checks.confidence(confidence)) / 2
    failures = trials - successes
    low = float(betaincinv(successes, failures + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, failures, 1 - tail)) if failures else 1.0
    return Interval(low, high)


def clopper_pearson_bound(
    *,
    true_positives: int,
    members: int,
    false_positives: int,
    non_members: int,
    delta: float,
    confidence: float = 0.95,
) -> LowerBound:
    """Lower bound on epsilon from these counts, for any mechanism.

    The guesses are on independent runs or records, with a threshold fixed in advance. The false
    positive and false negative rates each have a one-sided Clopper-Pearson limit at half of
    1 - confidence. Any (epsilon, delta)-private training has 1 - FNR <= e^epsilon FPR + delta, and
    the same with the rates exchanged.

    >>> bound = clopper_pearson_bound(true_positives=450, members=500, false_positives=20,
    ...                               non_members=500, delta=1e-5)
    >>> round(bound.epsilon, 6)
    2.656261
    """
    _validate.delta(delta)
    counts = Counts(true_positives, members, false_positives, non_members)
    missed, false = counts.worst_rates(confidence)
    return LowerBound(
        epsilon=max(
            0.0, _log_ratio(1 - missed - delta, false), _log_ratio(1 - false - delta, missed)
        ),
        delta=delta,
        confidence=confidence,
        method=METHOD,
        evidence=str(counts),
    )


def gaussian_bound(
    *,
    true_positives: int,
    members: int,
    false_positives: int,
    non_members: int,
    delta: float,
    confidence: float = 0.95,
) -> LowerBound:
    """Lower bound on epsilon from these counts, for a Gaussian mechanism; tighter if it is large.

    With the same limits on the rates as in `clopper_pearson_bound`, a mu-Gaussian-DP training has
    mu >= Phi^-1(1 - FPR) - Phi^-1(FNR) (Nasr et al. 2023).

    >>> bound = gaussian_bound(true_positives=450, members=500, false_positives=20,
    ...                        non_members=500, delta=1e-5)
    >>> round(bound.mu, 6), round(bound.epsilon, 4)
    (2.673351, 14.3801)
    """
    _validate.delta(delta)
    if delta == 0:
        raise InvalidInput("Expected delta > 0: Gaussian noise has no pure epsilon, got 0.")
    counts = Counts(true_positives, members, false_positives, non_members)
    missed, false = counts.worst_rates(confidence)
    # An upper limit of 1 (no member was found) is no evidence, and its quantile is infinite.
    mu = max(0.0, float(-ndtri(false) - ndtri(missed))) if max(missed, false) < 1 else 0.0
    return LowerBound(
        epsilon=gaussian.epsilon_of(mu, delta),
        delta=delta,
        confidence=confidence,
        method=f"{METHOD} for Gaussian mechanisms",
        evidence=str(counts),
        mu=mu,
    )


class Counts(NamedTuple):
    """Numbers of members and non-members, and of those that were called members."""

    true_positives: int
    members: int
    false_positives: int
    non_members: int

    def worst_rates(self, confidence: float) -> tuple[float, float]:
        """Upper limits of the false negative and false positive rates that hold jointly."""
        _validate.at_least_one("members", self.members)
        _validate.at_least_one("non-members", self.non_members)
        _checks.part_of("true positives", self.true_positives, "members", self.members)
        _checks.part_of("false positives", self.false_positives, "non-members", self.non_members)
        missed = self.members - self.true_positives
        return (
            clopper_pearson(missed, self.members, confidence).high,
            clopper_pearson(self.false_positives, self.non_members, confidence).high,
        )

    def __str__(self) -> str:
        return (
            f"{self.true_positives} of {self.members} members and {self.false_positives} of "
            f"{self.non_members} non-members were called members"
        )


def _log_ratio(above: float, below: float) -> float:
    return math.log(above / below) if above > 0 else 0.0
