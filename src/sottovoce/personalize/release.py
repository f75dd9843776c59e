"""Releasing counts with noise: the fact goes to the ledger first, then noise of exactly that scale.

One object owns both, so the two cannot disagree.
"""

import numpy as np

from sottovoce.errors import InvalidInput
from sottovoce.personalize.plan import DISCRETE, ReleasePlan
from sottovoce.personalize.vocabulary import Vector
from sottovoce.privacy import noise as draws
from sottovoce.privacy.facts import Noise, NoisyVector
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource


class CountRelease:
    """Adds the noise of a plan to summed counts and writes it down first.

    >>> from sottovoce.personalize.counting import Counting
    >>> from sottovoce.privacy.guarantee import Relation, Unit
    >>> ledger = Ledger(unit=Unit.UTTERANCE, relation=Relation.ADD_OR_REMOVE)
    >>> plan = ReleasePlan(counting=Counting(integer=True), noise=Noise.DISCRETE_LAPLACE, scale=3.0)
    >>> noisy = CountRelease(plan, ledger)(np.array([640.0, 0.0]))
    >>> noisy.shape, round(ledger.guarantee(0.0).epsilon, 2)
    ((2,), 67.66)
    """

    def __init__(
        self, plan: ReleasePlan, ledger: Ledger, source: NoiseSource | None = None
    ) -> None:
        if ledger.unit is not plan.unit:
            raise InvalidInput(
                f"Expected a ledger that protects one {plan.unit}, got one for {ledger.unit}."
            )
        self.plan, self.ledger = plan, ledger
        self.source = source or NoiseSource()
        for sentence in plan.assumptions():
            ledger.assume(sentence)

    @property
    def rounds_done(self) -> int:
        """Releases that the ledger knows of, also those of an earlier process."""
        return sum(
            entry.count for entry in self.ledger.entries if isinstance(entry.fact, NoisyVector)
        )

    def __call__(self, total: Vector) -> Vector:
        """The noisy counts (in counts, not units) of summed contributions (in units)."""
        if total.ndim != 1 or not np.isfinite(total).all():
            raise InvalidInput("Expected a vector of finite summed counts.")
        if self.plan.noise in DISCRETE and (np.rint(total) != total).any():
            raise InvalidInput("Expected whole numbers of units with discrete noise.")
        fact = self.plan.fact(self.rounds_done + 1, seeded=self.source.is_seeded)
        self.ledger.spend(fact)
        noisy: Vector = total + self._draw(total.size, fact.scale)
        return noisy / self.plan.counting.unit

    def _draw(self, size: int, scale: float) -> Vector:
        match self.plan.noise:
            case Noise.LAPLACE:
                return draws.laplace(size, scale, self.source)
            case Noise.GAUSSIAN:
                return draws.gaussian(size, scale, self.source)
            case Noise.DISCRETE_LAPLACE:
                return draws.discrete_laplace(size, scale, self.source).astype(np.float64)
            case Noise.DISCRETE_GAUSSIAN:
                return draws.discrete_gaussian(size, scale, self.source).astype(np.float64)
