"""The paper's CLC: a character CNN and word embeddings into a BiLSTM.

For the convolution, words are folded into the batch dimension, those of one utterance next to each
other. The LSTM gets a packed batch. So padding has no effect, and per-example clipping is exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sottovoce import _validate
from sottovoce.corpora.wordvectors import WordVectors
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.base import (
    Encoded,
    Encoder,
    Prepared,
    check_words,
    padded,
    prefix_mask,
)
from sottovoce.nlu.encoders.words import Characters, Words

VOCABULARY = "words.json"


@dataclass(frozen=True, kw_only=True)
class ClcShape:
    """Layer sizes; the paper uses two layers with 384 units in each direction."""

    word_width: int = 300
    character_width: int = 16
    filters: int = 50
    reach: int = 3
    """Filter width in characters."""
    hidden: int = 384
    layers: int = 2
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        for name in ("word_width", "character_width", "filters", "reach", "hidden", "layers"):
            _validate.at_least_one(name, getattr(self, name))
        _validate.between("dropout", self.dropout, 0, 0.9)


class Clc(Encoder):
    """Character CNN and word vectors into a bidirectional LSTM.

    >>> shape = ClcShape(word_width=4, character_width=2, filters=3, hidden=5, layers=1)
    >>> encoder = Clc(Words.hashed(10), shape)
    >>> batch = encoder.collate([encoder.prepare(["call", "mum"]), encoder.prepare(["stop"])])
    >>> encoder(batch).words.shape
    torch.Size([2, 2, 10])
    """

    kind = "clc"

    def __init__(
        self,
        words: Words,
        shape: ClcShape | None = None,
        *,
        vectors: WordVectors | None = None,
        tune_words: bool = True,
        characters: Characters | None = None,
    ) -> None:
        """`vectors` initialise the rows of listed words; `tune_words=False` freezes the table."""
        super().__init__()
        self.vocabulary, self.characters = words, characters or Characters()
        shape = shape or ClcShape()
        if vectors is not None:
            shape = ClcShape(**{**asdict(shape), "word_width": vectors.vectors.shape[1]})
        self.shape = shape
        self.width = self.summary_width = 2 * shape.hidden
        self.words = nn.Embedding(words.size, shape.word_width)
        self.letters = nn.Embedding(self.characters.size, shape.character_width)
        self.convolution = nn.Conv1d(
            shape.character_width, shape.filters, shape.reach, padding="same"
        )
        self.dropout = nn.Dropout(shape.dropout)
        self.lstm = nn.LSTM(
            shape.word_width + shape.filters,
            shape.hidden,
            num_layers=shape.layers,
            bidirectional=True,
            batch_first=True,
            dropout=shape.dropout if shape.layers > 1 else 0.0,
        )
        nn.init.normal_(self.words.weight, std=shape.word_width**-0.5)
        if vectors is not None:
            self._fill(vectors)
        self.words.weight.requires_grad_(tune_words)

    @torch.no_grad()
    def _fill(self, vectors: WordVectors) -> None:
        listed = self.vocabulary.listed
        rows = [vectors.index.get(word, -1) for word in listed]
        known = [place for place, row in enumerate(rows) if row >= 0]
        if not known:
            raise InvalidInput("Expected vectors for words of the vocabulary, got none.")
        table = vectors.vectors[[rows[place] for place in known]]
        found = torch.from_numpy(np.ascontiguousarray(table, dtype=np.float32))
        # Rows without a given vector get the same scale as the others.
        deviation = found.std() if found.numel() > 1 else 1.0
        self.words.weight.normal_(std=float(deviation))
        self.words.weight[torch.tensor(known) + 1] = found

    @property
    def uncovered(self) -> tuple[str, ...]:
        return self.vocabulary.uncovered

    def prepare(self, tokens: Sequence[str]) -> Prepared:
        check_words(tokens)
        spelt = [torch.tensor(self.characters.numbers(token) or [0]) for token in tokens]
        return {
            "words": torch.tensor([self.vocabulary.number(token) for token in tokens]),
            "letters": padded(spelt),
        }

    def collate(self, prepared: Sequence[Prepared]) -> dict[str, Tensor]:
        lengths = torch.tensor([len(one["words"]) for one in prepared])
        width = max(one["letters"].shape[1] for one in prepared)
        letters = torch.zeros(len(prepared), int(lengths.max()), width, dtype=torch.int64)
        for row, one in enumerate(prepared):
            own = one["letters"]
            letters[row, : own.shape[0], : own.shape[1]] = own
        return {
            "words": padded([one["words"] for one in prepared]),
            "letters": letters,
            "lengths": lengths,
        }

    def forward(self, inputs: dict[str, Tensor]) -> Encoded:
        ids, letters, lengths = inputs["words"], inputs["letters"], inputs["lengths"]
        mask = prefix_mask(lengths, ids.shape[1])
        both = torch.cat([self.words(ids), self._spelling(letters)], -1)
        packed = pack_padded_sequence(
            self.dropout(both), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        hidden, _ = pad_packed_sequence(self.lstm(packed)[0], True, total_length=ids.shape[1])
        hidden = self.dropout(hidden)
        # Padding is zero in `hidden`.
        return Encoded(hidden, hidden.sum(1) / lengths[:, None], mask)

    def _spelling(self, letters: Tensor) -> Tensor:
        folded = letters.flatten(0, 1)
        real = (folded != 0).unsqueeze(-1)
        # Noise is added to every row of the table, also to that of padding, so it is masked here.
        vectors = (self.letters(folded) * real).transpose(1, 2)
        filtered = self.convolution(vectors).masked_fill(~real.transpose(1, 2), -torch.inf)
        strongest: Tensor = filtered.amax(-1).masked_fill(~real.any(1), 0.0)
        return strongest.view(*letters.shape[:2], -1)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "shape": asdict(self.shape),
            "words": self.vocabulary.to_json(),
            "characters": self.characters.to_json(),
        }

    def files(self) -> dict[str, bytes]:
        return {VOCABULARY: self.vocabulary.file()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], files: Mapping[str, bytes]) -> Self:
        return cls(
            Words.from_json(data["words"], files[VOCABULARY]),
            ClcShape(**data["shape"]),
            characters=Characters(**data["characters"]),
        )
