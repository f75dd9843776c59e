"""Whole models: characters and BiLSTM, BERT as it comes, a language model with tied weights."""

from typing import Any

import pytest
import torch
from hypothesis import given
from tests.training.reference import Partition, assert_exact, few, partitions, seeds
from torch import Tensor, nn
from torch.nn import functional

from sottovoce.training.clipping.bookkeeping import BookKeeper

EXAMPLES, WORDS, LETTERS, INTENTS, SLOTS = 4, 5, 6, 3, 4


class CharacterTagger(nn.Module):
    """Word vectors and letters folded over words, a BiLSTM of two layers, two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.letters = nn.Embedding(50, 6, padding_idx=0), nn.Embedding(9, 3)
        self.convolution = nn.Conv1d(3, 5, 3, padding=1)
        self.lstm = nn.LSTM(11, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.intent, self.slot = nn.Linear(24, INTENTS), nn.Linear(24, SLOTS)

    def forward(self, ids: Tensor, letters: Tensor) -> tuple[Tensor, Tensor]:
        spelt = self.letters(letters.flatten(0, 1)).transpose(1, 2)
        spelt = self.convolution(spelt).amax(-1).reshape(*ids.shape, -1)
        hidden, _ = self.lstm(torch.cat([self.words(ids), spelt], -1))
        return self.intent(hidden.mean(1)), self.slot(hidden)


def joint_losses(outputs: tuple[Tensor, Tensor], intents: Tensor, slots: Tensor) -> Tensor:
    intent, slot = outputs
    by_word = functional.cross_entropy(
        slot.transpose(1, 2), slots, reduction="none", ignore_index=-100
    )
    return functional.cross_entropy(intent, intents, reduction="none") + by_word.sum(1)


def labels() -> list[Tensor]:
    slots = torch.randint(SLOTS, (EXAMPLES, WORDS))
    slots[1, 2:], slots[3, 4:] = -100, -100
    return [torch.randint(INTENTS, (EXAMPLES,)), slots]


@few
@given(partition=partitions(EXAMPLES), seed=seeds)
def test_characters_and_bilstm(partition: Partition, seed: int) -> None:
    torch.manual_seed(seed)
    model, targets = CharacterTagger(), labels()
    ids, letters = (
        torch.randint(50, (EXAMPLES, WORDS)),
        torch.randint(9, (EXAMPLES, WORDS, LETTERS)),
    )
    assert_exact(model, lambda: joint_losses(model(ids, letters), *targets), partition)


def make_bert(attention: str) -> nn.Module:
    transformers = pytest.importorskip("transformers", reason="needs the extra `bert`")
    config = transformers.BertConfig(
        vocab_size=60,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=40,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation=attention,
    )
    model: nn.Module = transformers.BertModel(config)
    return model


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "partition", [Partition(None, 4), Partition(torch.tensor([0, 2, 2, 0]), 4)]
)
def test_bert_as_it_comes(attention: str, dtype: torch.dtype, partition: Partition) -> None:
    """Position numbers have a first dimension of one, for all examples alike."""
    torch.manual_seed(0)
    model = nn.ModuleDict({"bert": make_bert(attention), "slot": nn.Linear(24, SLOTS)}).to(dtype)
    ids, (intents, slots) = torch.randint(60, (EXAMPLES, WORDS)), labels()
    mask = (slots >= 0).long()
    types = torch.randint(2, (EXAMPLES, WORDS))

    def losses() -> Tensor:
        outputs: Any = model["bert"](ids, attention_mask=mask, token_type_ids=types)
        slot = model["slot"](outputs.last_hidden_state)
        return joint_losses((outputs.pooler_output, slot), intents, slots)

    given_count = Partition(torch.arange(4), 4) if partition.groups is None else partition
    assert_exact(model, losses, given_count)


def test_bert_counts_its_own_examples() -> None:
    torch.manual_seed(0)
    model = make_bert("sdpa")
    ids = torch.randint(60, (EXAMPLES, WORDS))
    assert_exact(
        model,
        lambda: model(input_ids=ids).pooler_output.sin().sum(1),
        Partition(None, EXAMPLES),
    )


def test_bert_with_frozen_layers() -> None:
    torch.manual_seed(0)
    model = make_bert("sdpa")
    model.requires_grad_(False)
    model.get_submodule("encoder.layer.1.output").requires_grad_(True)
    model.get_submodule("pooler").requires_grad_(True)
    ids = torch.randint(60, (EXAMPLES, WORDS))
    keeper = BookKeeper(model)
    assert keeper.layer_names == (
        "encoder.layer.1.output.dense",
        "encoder.layer.1.output.LayerNorm",
        "pooler.dense",
    )
    assert_exact(
        model,
        lambda: model(ids).pooler_output.sin().sum(1),
        Partition(None, EXAMPLES),
    )


class Decoder(nn.Module):
    """A tiny causal language model; input and output share one table, one block is run twice."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(40, 16), nn.Embedding(8, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True)
        self.norm = nn.RMSNorm(16)
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        hidden = self.words(ids) + self.places(torch.arange(length).unsqueeze(0))
        causal = nn.Transformer.generate_square_subsequent_mask(length, dtype=hidden.dtype)
        for _ in range(2):
            hidden = self.block(hidden, src_mask=causal, is_causal=True)
        scores: Tensor = self.head(self.norm(hidden))
        return scores


@few
@given(partition=partitions(EXAMPLES), seed=seeds)
def test_tied_language_model_with_a_block_run_twice(partition: Partition, seed: int) -> None:
    torch.manual_seed(seed)
    model = Decoder().double()
    ids = torch.randint(40, (EXAMPLES, WORDS))

    def losses() -> Tensor:
        scores = model(ids[:, :-1]).transpose(1, 2)
        return functional.cross_entropy(scores, ids[:, 1:], reduction="none").mean(1)

    assert_exact(model, losses, partition)
