"""The models of the training races: the paper's two shapes, each with an intent and a CRF head."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertModel

from sottovoce.nlu.crf.linear_chain import Crf

INTENTS, SLOTS, PIECES, WORDS, CHARACTERS, SPELLING = 32, 72, 30_522, 10_000, 100, 10
LENGTH = 32

Batch = tuple[tuple[Tensor, ...], Tensor, Tensor]


class Tagger(nn.Module):
    """An encoder under an intent head and a slot head; `crf` chooses the slot loss."""

    def __init__(self, width: int, *, crf: bool) -> None:
        super().__init__()
        self.intent, self.slot = nn.Linear(width, INTENTS), nn.Linear(width, SLOTS)
        self.crf = Crf(SLOTS) if crf else None

    def encode(self, *inputs: Tensor) -> Tensor:
        raise AssertionError("a tagger has an encoder")

    def forward(self, inputs: tuple[Tensor, ...], intents: Tensor, slots: Tensor) -> Tensor:
        """[examples] the loss of each."""
        hidden = self.encode(*inputs)
        emissions = self.slot(hidden)
        loss = functional.cross_entropy(self.intent(hidden[:, 0]), intents, reduction="none")
        if self.crf is not None:
            tagged: Tensor = self.crf(emissions, slots)
            return loss + tagged / LENGTH
        by_word = functional.cross_entropy(emissions.transpose(1, 2), slots, reduction="none")
        return loss + by_word.mean(1)


class BertTagger(Tagger):
    """BERT of 4 layers, width 312 and 12 heads."""

    def __init__(self, *, crf: bool) -> None:
        super().__init__(312, crf=crf)
        config = BertConfig(
            vocab_size=PIECES,
            hidden_size=312,
            num_hidden_layers=4,
            num_attention_heads=12,
            intermediate_size=1200,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.bert = BertModel(config, add_pooling_layer=False)  # type: ignore[no-untyped-call]

    def encode(self, *inputs: Tensor) -> Tensor:
        (ids,) = inputs
        places = torch.arange(ids.shape[1]).expand_as(ids).contiguous()
        found = self.bert(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            position_ids=places,
            token_type_ids=torch.zeros_like(ids),
        )
        hidden: Tensor = found.last_hidden_state
        return hidden


class CharacterTagger(Tagger):
    """Words and their characters into a bidirectional LSTM of 2 x 384 (the paper's CLC)."""

    def __init__(self, *, crf: bool) -> None:
        super().__init__(768, crf=crf)
        self.words, self.characters = nn.Embedding(WORDS, 300), nn.Embedding(CHARACTERS, 16)
        self.convolution = nn.Conv1d(16, 50, 3, padding=1)
        self.lstm = nn.LSTM(350, 384, num_layers=2, bidirectional=True, batch_first=True)

    def encode(self, *inputs: Tensor) -> Tensor:
        ids, characters = inputs
        examples, words, _ = characters.shape
        spelt = self.characters(characters.flatten(0, 1)).transpose(1, 2)
        spelt = self.convolution(spelt).amax(-1).unflatten(0, (examples, words))
        hidden: Tensor = self.lstm(torch.cat([self.words(ids), spelt], -1))[0]
        return hidden


KINDS: dict[str, Callable[[], Tagger]] = {
    "bert": lambda: BertTagger(crf=False),
    "bert+crf": lambda: BertTagger(crf=True),
    "clc": lambda: CharacterTagger(crf=False),
    "clc+crf": lambda: CharacterTagger(crf=True),
}


def make(kind: str, examples: int) -> tuple[Tagger, Batch]:
    torch.manual_seed(0)
    model = KINDS[kind]()
    intents, slots = torch.randint(INTENTS, (examples,)), torch.randint(SLOTS, (examples, LENGTH))
    if isinstance(model, BertTagger):
        return model, ((torch.randint(5, PIECES, (examples, LENGTH)),), intents, slots)
    words = torch.randint(WORDS, (examples, LENGTH))
    spelling = torch.randint(CHARACTERS, (examples, LENGTH, SPELLING))
    return model, ((words, spelling), intents, slots)


def rows(batch: Batch, chosen: Tensor) -> Batch:
    inputs, intents, slots = batch
    return tuple(each[chosen] for each in inputs), intents[chosen], slots[chosen]
