"""The release plan: how words are counted, the sensitivity per unit, and the noise.

It is public configuration. It determines the sensitivity, the facts in the ledger, the paper's
claim, and the least noise for a target epsilon.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.privacy.accounting import Entry, account
from sottovoce.privacy.facts import Noise, NoisyVector
from sottovoce.privacy.guarantee import Claim, Guarantee, Relation, Unit
from sottovoce.privacy.recipes.federate import Cap, FederateRecipe, Release

DISCRETE = (Noise.DISCRETE_LAPLACE, Noise.DISCRETE_GAUSSIAN)
_GAUSSIAN = (Noise.GAUSSIAN, Noise.DISCRETE_GAUSSIAN)
_POOLS = {1: "increments", 2: "increments of pairs"}
# Relative tolerance of the calibration; epsilon stays below the target.
_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class ReleasePlan:
    """What is released, the protected unit and the noise; `scale` is in counts.

    >>> plan = ReleasePlan(counting=Counting(sigma=1.0, nbest=20, max_words=15), scale=2.0,
    ...                    release=Release.CUMULATIVE)
    >>> plan.claim().epsilon, round(plan.guarantee(rounds=10).epsilon, 1)
    (0.5, 131.5)
    >>> honest = replace(plan, release=Release.INCREMENTS).calibrated(epsilon=1.0, rounds=10)
    >>> round(honest.scale, 1), honest.guarantee(rounds=10).epsilon <= 1
    (26.3, True)
    """

    counting: Counting = field(default_factory=Counting)
    noise: Noise = Noise.LAPLACE
    scale: float = 1.0
    unit: Unit = Unit.UTTERANCE
    caps: Caps = field(default_factory=Caps)
    release: Release = Release.INCREMENTS
    sampling_rate: float | None = None

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        for name, kind in (("counting", Counting), ("caps", Caps)):
            if not isinstance(given := getattr(self, name), kind):
                raise InvalidInput(f"Expected {name} to be {kind.__name__}(...), got {given!r}.")
        _validate.positive("scale", self.scale)
        capped = self.caps.mass is not None or self.caps.per_word is not None
        if self.unit not in (Unit.UTTERANCE, Unit.USER):
            raise InvalidInput(f"Expected the unit utterance or user, got {self.unit}.")
        if self.unit is Unit.USER and self.caps.mass is None:
            raise InvalidInput("Expected a mass cap with the unit user, got none.")
        if self.unit is Unit.UTTERANCE and capped:
            raise InvalidInput(
                "Expected no caps with the unit utterance, got some: an added utterance would push "
                "others out of the cap and change the counts by more than its own words."
            )
        if self.counting.order > 1 and self.release is Release.CUMULATIVE:
            raise InvalidInput("Expected increments where pairs are counted, got cumulative.")
        if self.noise in DISCRETE and not self.counting.integer:
            raise InvalidInput("Expected integer counting with discrete noise, got fractions.")
        if self.sampling_rate is not None:
            _validate.rate("sampling_rate", self.sampling_rate)
            if self.release is Release.CUMULATIVE:
                raise InvalidInput(
                    "Expected increments for amplification by sampling, got cumulative: a "
                    "cumulative count is released in every later round its client is sampled in."
                )

    @property
    def is_gaussian(self) -> bool:
        return self.noise in _GAUSSIAN

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise on a count."""
        unit = self.counting.unit
        match self.noise:
            case Noise.LAPLACE:
                return math.sqrt(2) * self.scale
            case Noise.DISCRETE_LAPLACE:
                q = math.exp(-1 / (self.scale * unit))
                return math.sqrt(2 * q) / (1 - q) / unit
            case Noise.GAUSSIAN | Noise.DISCRETE_GAUSSIAN:
                return self.scale

    def sensitivity(self, number: int = 1) -> float:
        """Sensitivity of the vector of round `number` to one unit, in counting units."""
        if self.unit is Unit.UTTERANCE:
            rule = self.counting
            return rule.l2_sensitivity if self.is_gaussian else rule.l1_sensitivity
        mass, per_word = self.caps.in_units(self.counting.unit)
        if self.release is Release.CUMULATIVE and self.caps.span is Cap.PER_ROUND:
            mass, per_word = mass * number, per_word * number
        # L1 <= M and every word <= kappa give L2 <= sqrt(kappa M).
        return math.sqrt(min(mass, per_word) * mass) if self.is_gaussian else mass

    def fact(self, number: int = 1, *, seeded: bool = False, run: str = "plan") -> NoisyVector:
        """The ledger fact of the release of round `number`.

        Of a pool only the worst release is charged, because an utterance is in one round of a
        `run`, and a lifetime cap bounds all of them. Another run over the same people is another
        pool.
        """
        once = self.release is Release.INCREMENTS and (
            self.unit is Unit.UTTERANCE or self.caps.span is Cap.LIFETIME
        )
        return NoisyVector(
            unit=self.unit,
            noise=self.noise,
            scale=self.scale * self.counting.unit,
            sensitivity=self.sensitivity(number),
            sampling_rate=None if self.is_gaussian else self.sampling_rate,
            # An utterance is in one round of words *and* in one of pairs: two pools, both charged.
            pool=f"{run}: {_POOLS[self.counting.order]}" if once else None,
            seeded=seeded,
        )

    def guarantee(self, *, rounds: int, delta: float = 0.0) -> Guarantee:
        """The guarantee of `rounds` rounds of this plan."""
        _validate.at_least_one("rounds", rounds)
        return account(
            [Entry(self.fact(number)) for number in range(1, rounds + 1)],
            unit=self.unit,
            relation=Relation.ADD_OR_REMOVE,
            delta=delta,
            assumptions=list(self.assumptions()),
        )

    def claim(self, delta: float = 0.0) -> Claim:
        """The paper's claim for the same noise."""
        return FederateRecipe(
            noise=self.noise,
            scale=self.scale,
            max_words=self.counting.max_words,
            nbest=self.counting.nbest,
            sigma=self.counting.sigma,
            delta=delta,
        ).claim()

    def calibrated(self, *, epsilon: float, rounds: int, delta: float = 0.0) -> Self:
        """The same plan with the least noise that keeps `rounds` rounds within epsilon."""
        _validate.positive("epsilon", epsilon)

        def fits(scale: float) -> bool:
            found = replace(self, scale=scale).guarantee(rounds=rounds, delta=delta)
            return found.holds and found.epsilon <= epsilon

        high = 1.0
        while not fits(high):
            high *= 2
            if high > 1e12:
                raise InvalidInput(
                    f"Expected an attainable epsilon, got {epsilon:g} at delta {delta:g}: Gaussian "
                    "noise needs delta > 0."
                )
        low = high / 2
        while fits(low):
            high, low = low, low / 2
        while high / low > 1 + _TOLERANCE:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if fits(middle) else (middle, high)
        return replace(self, scale=high)

    def to_json(self) -> dict[str, Any]:
        return {
            "counting": self.counting.to_json(),
            "noise": str(self.noise),
            "scale": self.scale,
            "unit": str(self.unit),
            "caps": self.caps.to_json(),
            "release": str(self.release),
            "sampling_rate": self.sampling_rate,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        try:
            return cls(
                counting=Counting.from_json(data["counting"]),
                noise=data["noise"],
                scale=data["scale"],
                unit=data["unit"],
                caps=Caps.from_json(data["caps"]),
                release=data["release"],
                sampling_rate=data["sampling_rate"],
            )
        except (KeyError, TypeError) as problem:
            raise InvalidInput(f"Expected a release plan, but {problem!r}.") from problem

    def assumptions(self) -> Iterator[str]:
        """Assumptions of the guarantee besides the noise."""
        yield "the vocabulary is public and words with zero count get noise too"
        yield "the normaliser is taken from the noisy counts"
        yield "whoever adds the noise is trusted with the counts, or they are securely aggregated"
        if self.unit is Unit.UTTERANCE:
            counted = "words" if self.counting.order == 1 else "pairs"
            yield f"no more than {self.counting.max_words} {counted} of a hypothesis are counted"
            if self.release is Release.INCREMENTS:
                yield "ranks come from the first pass, not from personalised rescoring"
                yield "one utterance more or less moves no other utterance into another round"
                yield "every utterance is in one round of a run; further runs are paid beside it"
        else:
            yield "every client holds to its caps"
            if self.caps.span is Cap.LIFETIME:
                yield "a lifetime cap holds within one run; further runs are paid beside it"
        if self.sampling_rate is not None:
            yield "clients that are not sampled in a round drop what was new in it"
        yield "every client counts by the rules of the plan"
