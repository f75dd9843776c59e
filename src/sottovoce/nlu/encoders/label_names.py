"""Scores of labels from their names, so that a new label starts near its meaning.

"artist", "song_name" or "PlayMusic" say what a label means. The heads here score a word (or an
utterance) against the vector of a label's name. They are trained on public corpora with many label
sets, and work for labels that those corpora do not have.
"""

import re
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sottovoce.corpora import OUTSIDE
from sottovoce.nlu.encoders.bert import Bert

BORDERS = "OBI"
_SEAMS = re.compile(r"[._\-#+:/\s]+|(?<=[a-z])(?=[A-Z])")


def name_words(name: str) -> tuple[str, ...]:
    """The words of a label's name.

    >>> name_words("arrive_date.day_name"), name_words("AddToPlaylist")
    (('arrive', 'date', 'day', 'name'), ('add', 'to', 'playlist'))
    """
    return tuple(word.lower() for word in _SEAMS.split(name) if word)


@torch.no_grad()
def name_vectors(encoder: Bert, names: Sequence[str]) -> Tensor:
    """[names, width] vectors of label names: the mean over their words, with length 1."""
    if not names:
        return torch.zeros(0, encoder.width)
    mode = encoder.training
    encoder.eval()
    prepared = [encoder.prepare(name_words(name) or (name,)) for name in names]
    vectors: Tensor = encoder(encoder.collate(prepared)).utterance
    encoder.train(mode)
    return nn.functional.normalize(vectors, dim=-1)


class NameHeads(nn.Module):
    """Scores of slot tags and intents, given the vectors of their names."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.borders = nn.Linear(width, len(BORDERS))
        self.slot = nn.Linear(width, width, bias=False)
        self.intent = nn.Linear(width, width, bias=False)

    def tags(self, words: Tensor, tags: Sequence[str], slot_types: Tensor) -> Tensor:
        """[..., tags] scores of words; `slot_types` are the name vectors, in the order of tags."""
        weight, bias = self.tag_weights(tags, slot_types)
        return words @ weight.T + bias

    def tag_weights(self, tags: Sequence[str], slot_types: Tensor) -> tuple[Tensor, Tensor]:
        """The same scores as a linear layer: weight [tags, width] and bias [tags].

        A tag scores as its border (O, B or I) plus, inside a slot, the meaning of its name.
        """
        borders = torch.tensor([BORDERS.index(tag[0]) for tag in tags])
        order: dict[str, int] = {}
        for tag in tags:
            if tag != OUTSIDE:
                order.setdefault(tag[2:], len(order))
        meanings = torch.cat([slot_types @ self.slot.weight, torch.zeros(1, self.slot.in_features)])
        rows = [len(order) if tag == OUTSIDE else order[tag[2:]] for tag in tags]
        return self.borders.weight[borders] + meanings[rows], self.borders.bias[borders]

    def intent_weights(self, intents: Tensor) -> Tensor:
        """[intents, width] weights of a linear layer that scores intents by their name vectors."""
        return intents @ self.intent.weight
