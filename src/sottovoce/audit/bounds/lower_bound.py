"""The result of an audit: a lower bound on epsilon, at a given confidence.

A lower bound is evidence *against* a guarantee, never for one: a bound of 0 means that this attack,
with this many guesses, showed nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sottovoce import _validate
from sottovoce.audit import _checks
from sottovoce.errors import CannotAccount, InvalidInput
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
