import json

import numpy as np
import pytest
import torch
from tests.nlu.tiny import SCHEMA, UTTERANCES, shake, tiny_clc
from tests.training.reference import Partition, assert_exact

from sottovoce.corpora.wordvectors import WordVectors
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.base import Encoder, encoder_from_json
from sottovoce.nlu.encoders.clc import Clc, ClcShape
from sottovoce.nlu.encoders.words import Words, WordSource
from sottovoce.nlu.fit.data import Encodings
from sottovoce.nlu.model import JointModel


def encode(encoder: Encoder, *utterances: tuple[str, ...]) -> list[torch.Tensor]:
    """The words' vectors of each, without padding."""
    encoded = encoder(encoder.collate([encoder.prepare(tokens) for tokens in utterances]))
    return [row[: len(tokens)] for row, tokens in zip(encoded.words, utterances, strict=True)]


@torch.no_grad()
def test_padding_changes_nothing() -> None:
    torch.manual_seed(0)
    encoder = tiny_clc().eval()
    shake(encoder)  # the row of padding too
    short, long = ("call",), ("play", "incomprehensibilities", "now", "please")
    alone, together = encode(encoder, short), encode(encoder, long, short)
    torch.testing.assert_close(alone[0], together[1])
    encoded = encoder(encoder.collate([encoder.prepare(long), encoder.prepare(short)]))
    torch.testing.assert_close(encoded.utterance[1], alone[0].mean(0))
    assert encoded.mask.tolist() == [[True] * 4, [True, False, False, False]]


@torch.no_grad()
def test_spelling_tells_words_apart_that_share_a_number() -> None:
    torch.manual_seed(0)
    encoder = Clc(Words.hashed(1), ClcShape(word_width=4, filters=4, hidden=4, layers=1)).eval()
    (one,), (other,) = encode(encoder, ("jazz",), ("żółw",))
    assert not torch.allclose(one, other)


@pytest.mark.parametrize(
    "partition", [Partition(None, 4), Partition(torch.tensor([0, 1, 1, 0]), 2)]
)
def test_clipped_exactly(partition: Partition) -> None:
    torch.manual_seed(0)
    model = JointModel(SCHEMA, tiny_clc()).double()
    shake(model)
    batch = Encodings(model, UTTERANCES).batch(range(4))
    given = Partition(torch.arange(4), 4) if partition.groups is None else partition
    assert_exact(model, lambda: model.losses(batch), given)


def test_public_vectors_fill_the_table() -> None:
    vectors = WordVectors(("call", "jazz"), np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
    words = Words(listed=("jazz", "mum", "call"), source=WordSource.PUBLIC, spare=2)
    encoder = Clc(words, ClcShape(hidden=3), vectors=vectors, tune_words=False)
    table = encoder.words.weight
    assert table.shape == (6, 2)
    assert table[1].tolist() == [3, 4]
    assert table[3].tolist() == [1, 2]
    assert not table.requires_grad
    assert not encoder.frozen
    with pytest.raises(InvalidInput, match="words of the vocabulary, got none"):
        Clc(Words(listed=("x",), source=WordSource.PUBLIC), vectors=vectors)


def test_json_both_ways() -> None:
    torch.manual_seed(0)
    words = Words.seen(UTTERANCES)
    encoder = Clc(words, ClcShape(word_width=4, filters=3, hidden=4)).eval()
    again = encoder_from_json(json.loads(json.dumps(encoder.to_json())), encoder.files())
    again.load_state_dict(encoder.state_dict())
    tokens = UTTERANCES[1].tokens
    torch.testing.assert_close(encode(encoder, tokens), encode(again.eval(), tokens))
    assert again.uncovered == words.uncovered != ()


def test_an_utterance_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one token"):
        tiny_clc().prepare([])


def test_the_paper_by_default() -> None:
    shape = ClcShape()
    assert (shape.hidden, shape.layers) == (384, 2)
    with pytest.raises(InvalidInput, match="hidden"):
        ClcShape(hidden=0)
