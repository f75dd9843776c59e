"""Other values in the same sentence: `play [jazz]` becomes `play [rock and roll]`.

It teaches an encoder to find a slot by what is around it, not by its words alone.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from sottovoce.corpora import OUTSIDE, Utterance

SHARE = 0.7
"""How likely a value is exchanged in an utterance that is chosen for it."""


class Values:
    """What the slots of a corpus were filled with.

    >>> corpus = [Utterance(tokens=("call", "mum"), slots=("O", "B-who")),
    ...           Utterance(tokens=("aunt", "ann", "please"), slots=("B-who", "I-who", "O"))]
    >>> Values(corpus).swap(corpus[0], random.Random(5)).text
    'call aunt ann'
    """

    def __init__(self, utterances: Sequence[Utterance]) -> None:
        self._of: dict[str, list[tuple[str, ...]]] = {}
        for utterance in utterances:
            for kind, begin, end in _stretches(utterance.slots):
                if kind:
                    self._of.setdefault(kind, []).append(utterance.tokens[begin:end])

    def swap(self, utterance: Utterance, draws: random.Random) -> Utterance:
        """The utterance with some of its values exchanged for others of the same slot."""
        tokens: list[str] = []
        slots: list[str] = []
        for kind, begin, end in _stretches(utterance.slots):
            value = utterance.tokens[begin:end]
            if kind and draws.random() < SHARE:
                value = draws.choice(self._of[kind])
            tokens += value
            slots += [f"{'I' if place else 'B'}-{kind}" if kind else OUTSIDE
                      for place in range(len(value))]  # fmt: skip
        return replace(utterance, tokens=tuple(tokens), slots=tuple(slots), text="")


def _stretches(slots: Sequence[str]) -> list[tuple[str, int, int]]:
    """Slots and what lies between them, in order; between them the name is empty.

    >>> _stretches(["O", "B-a", "I-a", "B-a"])
    [('', 0, 1), ('a', 1, 3), ('a', 3, 4)]
    """
    found: list[tuple[str, int, int]] = []
    for place, slot in enumerate(slots):
        kind = "" if slot == OUTSIDE else slot[2:]
        if found and found[-1][0] == kind and not slot.startswith("B-"):
            found[-1] = (kind, found[-1][1], place + 1)
        else:
            found.append((kind, place, place + 1))
    return found
