"""A source with fixed words, to test events of probability 2**-64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.noise import NoiseSource


class FixedWords(NoiseSource):
    """Repeats these words."""

    def __init__(self, words: list[int]) -> None:
        super().__init__()
        self._is_seeded = True  # keeps the compiled kernel from being used
        self._words = np.array(words, np.uint64)

    def fill(self, out: NDArray[Any]) -> None:
        out[:] = np.resize(self._words, out.size)
