"""A source whose words are chosen by the test, to reach the events of probability 2**-64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.noise import NoiseSource


class FixedWords(NoiseSource):
    """Gives these words over and over."""

    def __init__(self, words: list[int]) -> None:
        super().__init__()
        self._is_seeded = True  # these words and no others: not a source for the compiled kernel
        self._words = np.array(words, np.uint64)

    def fill(self, out: NDArray[Any]) -> None:
        out[:] = np.resize(self._words, out.size)
