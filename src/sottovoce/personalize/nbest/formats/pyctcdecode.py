"""Beams of pyctcdecode's `decode_beams`: tuples in memory, since it has no file format.

A beam is (text, language model state, frames, logit_score, lm_score). `lm_score` is the fused
total, so the language model's share is the total minus the logits.

pocketsphinx's `nbest()` walks the lattice, so the same words recur with different pauses; each
string is kept once, at its first and best position. It has one combined score, a probability.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.formats._tables import known
from sottovoce.personalize.nbest.lists import Hypothesis, NBest


def from_beams(utterance: str, beams: Iterable[Sequence[Any]]) -> NBest:
    """The N-best list of one decoded utterance.

    >>> from_beams("u1", [("call mum", None, [], -3.0, -4.5)]).best
    Hypothesis(text='call mum', am=-3.0, lm=-1.5, score=-4.5)
    """
    hypotheses = []
    for beam in beams:
        match beam:
            case [str(text), _, _, (int() | float()) as logits, (int() | float()) as total]:
                am, score = float(logits), float(total)
                hypotheses.append(Hypothesis(text, am=am, lm=score - am, score=score))
            case _:
                raise InvalidInput(
                    "Expected beams of (text, state, frames, logit_score, lm_score), got "
                    f"{beam!r:.60}."
                )
    return NBest(utterance, tuple(hypotheses))


def to_beams(nbest: NBest) -> list[tuple[str, None, list[Any], float, float]]:
    """The beams of a list, without decoder state and frames.

    >>> to_beams(from_beams("u1", [("call mum", None, [], -3.0, -4.5)]))
    [('call mum', None, [], -3.0, -4.5)]
    """
    return [
        (h.text, None, [], known(h.am, "am", nbest.id), known(h.score, "score", nbest.id))
        for h in nbest.hypotheses
    ]


# Paths to search per string; a lattice may repeat a few strings endlessly.
_PATHS_PER_STRING = 20


def from_decoder(utterance: str, decoder: Any, size: int = 100) -> NBest:
    """The `size` best distinct strings of a pocketsphinx decoder.

    >>> from types import SimpleNamespace as Fake
    >>> paths = [Fake(hypstr="call mum", score=0.5), None, Fake(hypstr="call mum", score=0.4)]
    >>> from_decoder("u1", Fake(nbest=lambda: iter(paths))).hypotheses
    (Hypothesis(text='call mum', am=None, lm=None, score=-0.693...),)
    """
    _validate.at_least_one("size", size)
    found: dict[str, float] = {}
    for looked_at, path in enumerate(decoder.nbest()):
        if len(found) == size or looked_at == size * _PATHS_PER_STRING:
            break
        # The decoder yields None for a path without words.
        if path is not None and path.hypstr is not None:
            found.setdefault(path.hypstr, math.log(max(path.score, 1e-300)))
    return NBest(utterance, tuple(Hypothesis(text, score=score) for text, score in found.items()))
