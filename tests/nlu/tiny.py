"""Small models and utterances that several tests of `nlu` share."""

import pytest
import torch
from torch import nn

from sottovoce.corpora import Utterance
from sottovoce.nlu.encoders.bert import Bert
from sottovoce.nlu.encoders.clc import Clc, ClcShape
from sottovoce.nlu.encoders.pieces import Pieces, SpecialTokens
from sottovoce.nlu.encoders.words import Words
from sottovoce.nlu.schema import Schema

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "call", "mum", "##my", "play", "jazz", "stop", "##s"]
MARKS = SpecialTokens(start=2, end=3, unknown=1, padding=0)

UTTERANCES = (
    Utterance(tokens=("call", "mummy"), slots=("O", "B-who"), intent="call"),
    Utterance(tokens=("play", "jazz", "stops"), slots=("O", "B-what", "I-what"), intent="play"),
    Utterance(tokens=("stop",), slots=("O",), intent="stop"),
    Utterance(
        tokens=("call", "jazz", "mum", "stop"), slots=("O", "B-who", "I-who", "O"), intent="call"
    ),
)
SCHEMA = Schema.of(UTTERANCES, declared=True)


def tiny_pieces(positions: int = 16) -> Pieces:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the extra `bert`")
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({p: n for n, p in enumerate(PIECES)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return Pieces(tokenizer, MARKS, positions)


def tiny_bert(
    positions: int = 16, *, layers: tuple[int, ...] = (-1,), summary: str = "mean"
) -> Bert:
    transformers = pytest.importorskip("transformers", reason="needs the extra `bert`")
    config = transformers.BertConfig(
        vocab_size=len(PIECES),
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=positions,
    )
    network = transformers.BertModel(config)
    return Bert(network, tiny_pieces(positions), layers=layers, summary=summary)  # type: ignore[arg-type]


def tiny_clc(dropout: float = 0.0) -> Clc:
    shape = ClcShape(
        word_width=5, character_width=3, filters=4, hidden=6, layers=2, dropout=dropout
    )
    return Clc(Words.hashed(30), shape)


def shake(model: nn.Module, std: float = 0.3) -> None:
    """Zero heads hide mistakes: give everything that is trained a value of its own."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(std * torch.randn_like(parameter))
