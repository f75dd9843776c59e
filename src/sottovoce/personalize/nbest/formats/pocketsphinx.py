"""N-best lists straight from a pocketsphinx decoder that has just finished an utterance.

Its `nbest()` walks the lattice, so the same words come up again and again with other pauses; each
string is kept once, at its first and best place. There is one combined score, a probability.
"""

import math
from typing import Any

from sottovoce import _validate
from sottovoce.personalize.nbest.lists import Hypothesis, NBest

# Paths looked at for every string wanted; a lattice may repeat a few strings endlessly.
_PATHS_PER_STRING = 20


def from_decoder(utterance: str, decoder: Any, size: int = 100) -> NBest:
    """The `size` best distinct strings that the decoder heard.

    >>> from types import SimpleNamespace as Fake
    >>> heard = [Fake(hypstr="call mum", score=0.5), None, Fake(hypstr="call mum", score=0.4)]
    >>> from_decoder("u1", Fake(nbest=lambda: iter(heard))).hypotheses
    (Hypothesis(text='call mum', am=None, lm=None, score=-0.693...),)
    """
    _validate.at_least_one("size", size)
    found: dict[str, float] = {}
    for looked_at, path in enumerate(decoder.nbest()):
        if len(found) == size or looked_at == size * _PATHS_PER_STRING:
            break
        # The decoder gives None for a path without words.
        if path is not None and path.hypstr is not None:
            found.setdefault(path.hypstr, math.log(max(path.score, 1e-300)))
    return NBest(utterance, tuple(Hypothesis(text, score=score) for text, score in found.items()))
