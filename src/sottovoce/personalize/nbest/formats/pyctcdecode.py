"""Beams of pyctcdecode's `decode_beams`: tuples in memory, as it has no file of its own.

A beam is (text, language model state, frames, logit_score, lm_score). `lm_score` is the fused
total, so the language model's own share is what is left after the logits.
"""

from collections.abc import Iterable, Sequence
from typing import Any

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
    """The same beams, without decoder state and frames, which a list does not have.

    >>> to_beams(from_beams("u1", [("call mum", None, [], -3.0, -4.5)]))
    [('call mum', None, [], -3.0, -4.5)]
    """
    return [
        (h.text, None, [], known(h.am, "am", nbest.id), known(h.score, "score", nbest.id))
        for h in nbest.hypotheses
    ]
