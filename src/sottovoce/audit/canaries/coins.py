"""Fair coins: who is included is decided by nothing but a `NoiseSource`."""

import numpy as np

from sottovoce.audit._checks import Flags
from sottovoce.privacy.noise import NoiseSource


def fair_coins(count: int, source: NoiseSource) -> Flags:
    """One independent fair coin for each canary: the whole of the randomness an audit rests on.

    >>> coins = fair_coins(1000, NoiseSource.seeded(1))
    >>> coins.dtype.name, bool(400 < coins.sum() < 600)
    ('bool', True)
    """
    coins: Flags = (source.words(count) & np.uint64(1)).astype(np.bool_)
    return coins
