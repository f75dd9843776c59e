"""Ranges for Flower's SecAgg+ under which a secure sum of counts is the plain sum, to the unit.

SecAgg+ clips every value to `clipping_range` (8 unless told otherwise, silently), scales it by
quantization_range / (2 clipping_range) and rounds at random. With integer counts, a clipping range
that no contribution can reach and a scale of exactly 1 there is nothing to clip or to round.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.plan import ReleasePlan
from sottovoce.personalize.server import PLAUSIBLE_MASS
from sottovoce.privacy.guarantee import Unit

# Flower computes in 32-bit words.
_LARGEST_MODULUS = 2**32
_LARGEST_QUANTISED = 2**31 - 1


@dataclass(frozen=True)
class SecureRanges:
    """Arguments of `SecAggPlusWorkflow`; every client sends its counts with a weight of 1.

    >>> from sottovoce.personalize.counting import Counting
    >>> from sottovoce.personalize.cache import Caps
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
        """Ranges for one round of this plan with so many clients, or a refusal."""
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
                f"Expected {clients} clients times twice {most} units to fit in 32 bits, which "
                "they do not; lower the cap of a word, or aggregate in smaller groups."
            )
        return cls(float(most), quantised, modulus)

    def arguments(self) -> dict[str, Any]:
        return asdict(self)
