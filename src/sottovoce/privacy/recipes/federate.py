"""A recipe for federated counts: the claim and the guarantee of their noise.

With the rank kernel K(r) = exp(-(r-1)^2 / (2 sigma^2)) and S = sum_r K(r), one utterance of at most
m words per hypothesis changes the counts by m S in L1 (not by 1, as the paper assumes).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants import papers
from sottovoce.privacy.accounting import Entry, account
from sottovoce.privacy.facts import Noise, NoisyVector
from sottovoce.privacy.guarantee import Claim, Guarantee, Relation, Statement, Unit

# Integer kernel weights round(64 K) make counts integers: exact sums and discrete noise.
INTEGER_WEIGHT = 64


class Kernel(StrEnum):
    RAW = "raw"
    NORMALISED = "normalised"


class Release(StrEnum):
    """Release the increments since the last round, or all counts so far with fresh noise."""

    INCREMENTS = "increments"
    CUMULATIVE = "cumulative"


class Cap(StrEnum):
    """Whether a user's mass is capped over all rounds, or in each round."""

    LIFETIME = "lifetime"
    PER_ROUND = "per-round"


def kernel_weights(nbest: int, sigma: float, kernel: Kernel = Kernel.RAW) -> list[float]:
    """The weight of each rank, best first.

    >>> round(sum(kernel_weights(20, 5.0)), 6)
    6.765984
    """
    kernel = _validate.choice("kernel", kernel, Kernel)
    _validate.positive("sigma", sigma)
    steps = [rank / sigma for rank in range(nbest)]
    # step * step overflows to infinity, so exp gives 0; step**2 would raise.
    weights = [math.exp(-step * step / 2) for step in steps]
    total = sum(weights)
    return weights if kernel is Kernel.RAW else [weight / total for weight in weights]


def integer_weights(weights: list[float]) -> list[int]:
    """The weights as integer multiples of 1/64.

    >>> integer_weights(kernel_weights(5, 1.0))
    [64, 39, 9, 1, 0]
    """
    return [round(INTEGER_WEIGHT * weight) for weight in weights]


@dataclass(frozen=True, kw_only=True)
class FederateRecipe:
    """Noise of one scale on a vector of word counts, released over several rounds.

    >>> recipe = FederateRecipe(noise=Noise.LAPLACE, scale=2.0, max_words=15, nbest=20, sigma=1.0,
    ...                         rounds=10, release=Release.CUMULATIVE)
    >>> round(recipe.claim().epsilon, 1), round(recipe.guarantee().epsilon, 1)
    (0.5, 131.5)
    """

    noise: Noise
    scale: float
    max_words: int
    nbest: int
    sigma: float
    kernel: Kernel = Kernel.RAW
    rounds: int = 1
    release: Release = Release.INCREMENTS
    unit: Unit = Unit.UTTERANCE
    mass_cap: float | None = None
    word_cap: float | None = None
    cap: Cap = Cap.LIFETIME
    delta: float = 0.0

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        _validate.positive("scale", self.scale)
        _validate.positive("sigma", self.sigma)
        _validate.at_least_one("max words", self.max_words)
        _validate.at_least_one("nbest", self.nbest)
        _validate.at_least_one("rounds", self.rounds)
        _validate.delta(self.delta)
        if self.unit not in (Unit.UTTERANCE, Unit.USER):
            raise InvalidInput(f"Expected the unit utterance or user, got {self.unit}.")
        if self.unit is Unit.USER and self.mass_cap is None:
            raise InvalidInput("Expected a mass cap with the unit user, got none.")
        for name, cap in (("mass cap", self.mass_cap), ("word cap", self.word_cap)):
            if cap is not None:
                _validate.positive(name, cap)
                if self.unit is Unit.UTTERANCE:
                    raise InvalidInput(f"Expected a {name} only with the unit user.")
        if self.is_gaussian and self.delta == 0:
            raise InvalidInput("Expected delta > 0 with Gaussian noise, got 0.")

    @property
    def is_gaussian(self) -> bool:
        return self.noise in (Noise.GAUSSIAN, Noise.DISCRETE_GAUSSIAN)

    def kernel_mass(self) -> float:
        """S: what one word at every rank adds to its count."""
        if self.noise not in (Noise.DISCRETE_LAPLACE, Noise.DISCRETE_GAUSSIAN):
            return sum(kernel_weights(self.nbest, self.sigma, self.kernel))
        # A normalised kernel is rounded anew for every length of list, and some round up.
        return (
            max(
                sum(integer_weights(kernel_weights(length, self.sigma, self.kernel)))
                for length in range(1, self.nbest + 1)
            )
            / INTEGER_WEIGHT
        )

    def sensitivity(self, rounds_so_far: int = 1) -> float:
        """The sensitivity of one released vector, in the norm that fits the noise."""
        if self.unit is Unit.UTTERANCE:
            words = math.sqrt(self.max_words) if self.is_gaussian else self.max_words
            return words * self.kernel_mass()
        assert self.mass_cap is not None
        grows = self.release is Release.CUMULATIVE and self.cap is Cap.PER_ROUND
        mass = self.mass_cap * (rounds_so_far if grows else 1)
        if not self.is_gaussian:
            return mass
        # L1 <= M and every word <= kappa give L2 <= sqrt(kappa M).
        per_word = min(mass, (self.word_cap or mass) * (rounds_so_far if grows else 1))
        return math.sqrt(per_word * mass)

    def entries(self) -> Iterator[Entry]:
        once = self.release is Release.INCREMENTS and (
            self.unit is Unit.UTTERANCE or self.cap is Cap.LIFETIME
        )
        for number in range(1, self.rounds + 1):
            yield Entry(
                NoisyVector(
                    unit=self.unit,
                    noise=self.noise,
                    scale=self.scale,
                    sensitivity=self.sensitivity(number),
                    pool="increments" if once else None,
                )
            )

    def guarantee(self) -> Guarantee:
        return account(
            self.entries(),
            unit=self.unit,
            relation=Relation.ADD_OR_REMOVE,
            delta=self.delta,
            assumptions=list(self._assumptions()),
        )

    def _assumptions(self) -> Iterator[str]:
        yield "the vocabulary is public and words with zero count get noise too"
        yield "the normaliser is computed from the noisy counts"
        yield (
            "the party that adds the noise is trusted with the counts, or they are securely "
            "aggregated"
        )
        if self.unit is Unit.UTTERANCE:
            yield f"no more than {self.max_words} words of a hypothesis are counted"
            if self.is_gaussian:
                yield "each word is counted at most once per hypothesis"
            if self.release is Release.INCREMENTS:
                yield "ranks come from the first pass, not from personalised rescoring"

    def claim(self) -> Claim:
        if self.is_gaussian:
            return papers.zcdp(
                [self.scale], self.delta, "the paper's sensitivity of 1 with Gaussian noise (zCDP)"
            )
        how = "the paper: Laplace(1/epsilon) on counts of sensitivity 1"
        return Claim.of(1 / self.scale, delta=0.0, how=how)

    def statement(self) -> Statement:
        effective = self.scale / self.sensitivity(self.rounds) if self.is_gaussian else None
        return Statement(
            claimed=self.claim(),
            guarantee=self.guarantee(),
            effective_noise_multiplier=effective,
        )
