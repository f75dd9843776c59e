"""Does a mechanism draw from the channel it states? Shared by the tests of all mechanisms."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tests.statistical.distributions import choice_objections

from sottovoce.deid.replace import Mechanism, Scope
from sottovoce.privacy.noise import NoiseSource

# Enough draws to detect a parameter change by a factor of 0.7 or 1.3 in every channel here.
SAMPLES = 40_000


class Stated(Mechanism, Protocol):
    """A mechanism that states its channel."""

    def channel(self, value: str) -> dict[str, float]: ...


def outputs(mechanism: Mechanism, value: str, count: int = SAMPLES, seed: int = 7) -> list[str]:
    scopes = [Scope(type="LOC")] * (count if mechanism.scoped else 0)
    return mechanism.replace([value] * count, scopes, NoiseSource.seeded(seed))


def objections(drawn: Sequence[str], row: Mapping[str, float]) -> list[str]:
    """Deviations of draws from a row of a channel."""
    places = {output: place for place, output in enumerate(row)}
    if not places.keys() >= {*drawn}:
        return ["an output that the channel does not know"]
    chosen: NDArray[Any] = np.array([places[output] for output in drawn])
    return choice_objections(chosen, list(row.values()))
