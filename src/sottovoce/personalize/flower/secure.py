"""Ranges for Flower's SecAgg+ under which a secure sum of counts equals the plain sum exactly.

SecAgg+ clips every value to [-c, c] (silently, c = 8 by default), maps it to (value + c) r / (2 c),
rounds stochastically, adds masks modulo M, and inverts the map on the sum. Each client also sends a
weight w = round(r n / n_max), by which its values are multiplied and the sum is divided. Why none
of this can change a count here:

1. Every count x is a whole number of units with 0 <= x <= c (`check`, on the device), so clipping
   changes nothing. With n = n_max = 1 the weight is r exactly, and values are multiplied by 1.
2. r = 2 c with c whole and below 2^30, so the scale is exactly 1 and x + c is a whole number below
   2^31. The ceiling of a whole number is itself, and rounding goes down with probability 0.
3. N clients send at most 2 c each, and r each as their weight: both sums are at most N r < M, so
   reducing them modulo M loses nothing once the masks, which cancel modulo M, are gone.
4. The server subtracts N c and divides by N r / r = N. The caller multiplies by N and rounds: the
   error of both is below 2^-51 N r < 2^-18, so the whole number is recovered.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.server import PLAUSIBLE_MASS
from sottovoce.personalize.lm.vocabulary import Vector
from sottovoce.privacy.guarantee import Unit

# Flower computes in 32-bit words.
_LARGEST_MODULUS = 2**32
_LARGEST_QUANTISED = 2**31 - 1


@dataclass(frozen=True)
class SecureRanges:
    """Arguments of `SecAggPlusWorkflow`; every client sends its counts with a weight of 1.

    >>> from sottovoce.personalize.federated.counting import Counting
    >>> from sottovoce.personalize.federated.counting import Caps
    >>> plan = ReleasePlan(counting=Counting(integer=True), unit=Unit.USER, caps=Caps(100.0))
    >>> SecureRanges.of(plan, clients=1000).arguments()["clipping_range"]
    6400.0
    """

    clipping_range: float
    quantization_range: int
    modulus_range: int
    max_weight: float = 1.0

    @classmethod
    def of(
        cls, plan: ReleasePlan, *, clients: int, plausible_mass: float = PLAUSIBLE_MASS
    ) -> "SecureRanges":
        """Ranges for one round of this plan with `clients` clients, or an error."""
        _validate.at_least_one("clients", clients)
        if not plan.counting.integer:
            raise InvalidInput("Expected integer counting for an exact secure sum, got fractions.")
        unit = plan.counting.unit
        most = math.ceil(plausible_mass * unit)
        if plan.unit is Unit.USER:
            mass, per_word = plan.caps.in_units(unit)
            most = math.ceil(min(mass, per_word))
        quantised = 2 * most
        modulus = 1 << (clients * quantised).bit_length()
        if quantised > _LARGEST_QUANTISED or modulus > _LARGEST_MODULUS:
            raise InvalidInput(
                f"Expected {clients} clients times 2 x {most} units to fit in 32 bits, got more: "
                "lower the word cap, or aggregate in smaller groups."
            )
        return cls(float(most), quantised, modulus)

    def arguments(self) -> dict[str, Any]:
        return asdict(self)

    def check(self, counts: Vector, *, clients: int) -> None:
        """Reject ranges or counts for which a secure sum could differ from the plain one.

        >>> SecureRanges(8.0, 2**22, 2**32).check(np.array([183.0]), clients=5)
        Traceback (most recent call last):
        sottovoce.errors.InvalidInput: Expected ranges that preserve counts, got ...
        """
        whole = self.quantization_range == 2 * self.clipping_range and self.max_weight == 1
        room = clients * self.quantization_range < self.modulus_range <= _LARGEST_MODULUS
        if not whole or not room or self.quantization_range > _LARGEST_QUANTISED:
            raise InvalidInput(f"Expected ranges that preserve counts, got {self}.")
        fits = (counts >= 0) & (counts <= self.clipping_range) & (np.rint(counts) == counts)
        if not fits.all():
            raise InvalidInput(
                f"Expected whole counts of at most {self.clipping_range:g} units per word, got "
                f"{int((~fits).sum())} others: nothing is sent."
            )

    def assumptions(self) -> tuple[str, ...]:
        """What secure aggregation protects, and what it leaves open."""
        return (
            "single contributions are masked (SecAgg+): the server sees the exact sum of a round "
            "and adds the noise to that sum, so its operator is trusted with the sums",
            "the server follows the protocol, and two thirds of every client's neighbours neither "
            "leave nor share their keys with it",
            "the masks of Flower 1.41 are derived from 32-bit seeds: they stop a curious server, "
            "not one that searches all seeds",
            f"no client sends false counts, which a mask would hide; a sum above "
            f"{self.clipping_range:g} units per word and client is left out",
        )
