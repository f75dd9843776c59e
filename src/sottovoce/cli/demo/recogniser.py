"""A synthetic recogniser for the demo: it confuses words of the same slot.

Real recognisers make errors on names, which personalisation corrects. `examples/` has a real one.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sottovoce.corpora import OUTSIDE, Utterance
from sottovoce.io.atomic import text_output
from sottovoce.personalize.nbest.lists import Hypothesis, NBest

HYPOTHESES = 5
ERROR_RATE = 0.35
"""Probability that the first hypothesis is wrong."""


def recognised(utterances: Sequence[Utterance], seed: int = 0) -> Iterator[NBest]:
    """N-best lists of the utterances, numbered per user."""
    draws = random.Random(seed)
    words: dict[str, list[str]] = {}
    for utterance in utterances:
        for token, slot in zip(utterance.tokens, utterance.slots, strict=True):
            words.setdefault(slot, []).append(token)
    places: dict[str, int] = {}
    for number, utterance in enumerate(utterances):
        order = places[utterance.user] = places.get(utterance.user, -1) + 1
        others = [_confused(utterance, words, draws) for _ in range(HYPOTHESES)]
        texts = list(dict.fromkeys([utterance.text, *others]))[:HYPOTHESES]
        if len(texts) > 1 and draws.random() < ERROR_RATE:
            texts[0], texts[1] = texts[1], texts[0]
        yield NBest(
            f"demo-{number}",
            tuple(Hypothesis(text, am=-0.4 * rank) for rank, text in enumerate(texts)),
            utterance.text,
            utterance.user,
            order,
        )


def write_public_text(path: Path, utterances: Iterable[Utterance]) -> None:
    """Write other users' text, which serves as public text here."""
    with text_output(path) as stream:
        for utterance in utterances:
            stream.write(" ".join(utterance.tokens) + "\n")


def _confused(utterance: Utterance, words: dict[str, list[str]], draws: random.Random) -> str:
    """Replace one slot word (any word if there are no slots) by another of the same kind."""
    named = [place for place, slot in enumerate(utterance.slots) if slot != OUTSIDE]
    place = draws.choice(named or range(len(utterance.tokens)))
    tokens = list(utterance.tokens)
    tokens[place] = draws.choice(words[utterance.slots[place]])
    return " ".join(tokens)
