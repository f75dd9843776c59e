"""Fair coins from a `NoiseSource`, which decide which canaries are included."""

import numpy as np

from sottovoce.audit._checks import Flags
from sottovoce.privacy.noise import NoiseSource


def fair_coins(count: int, source: NoiseSource) -> Flags:
    """One independent fair coin per canary; an audit relies on no other randomness.

    >>> coins = fair_coins(1000, NoiseSource.seeded(1))
    >>> coins.dtype.name, bool(400 < coins.sum() < 600)
    ('bool', True)
    """
    coins: Flags = (source.words(count) & np.uint64(1)).astype(np.bool_)
    return coins
