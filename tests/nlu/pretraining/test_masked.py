"""Masked pretraining: it learns to guess, measures on held-out lines, and asks for 15 %."""

import math

import pytest
import torch
from tests.nlu.tiny import PIECES, tiny_bert

from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.bert import Bert
from sottovoce.nlu.fit.loop import Progress
from sottovoce.nlu.pretraining import LoopOptions, MaskedPlan, pretrain_masked
from sottovoce.nlu.pretraining.masked import _MaskedModel


def masked_bert() -> Bert:
    """The tiny encoder, whose last piece is made the one that hides others."""
    encoder = tiny_bert()
    encoder.pieces.tokenizer.add_special_tokens(["[MASK]"])
    encoder.network.resize_token_embeddings(len(PIECES) + 1)  # type: ignore[operator]
    return encoder


LINES = ["call mum", "play jazz", "call mummy", "stop jazz"] * 20


def test_guessing_gets_better_also_on_lines_that_were_held_out() -> None:
    torch.manual_seed(0)
    told: list[Progress] = []
    plan = MaskedPlan(passes=30, batch_size=16, learning_rate=1e-2, held_out=0.2)
    found = pretrain_masked(masked_bert(), LINES, plan, LoopOptions(on_step=told.append))
    assert found.pretrained.steps == 30 * 4
    assert found.valid_lines == 16
    assert found.valid_loss is not None
    assert found.valid_loss < 0.8 * math.log(len(PIECES) + 1)
    assert told[-1].loss < 0.7 * told[0].loss


def test_the_same_seed_gives_the_same_weights() -> None:
    ends = []
    for _ in range(2):
        torch.manual_seed(0)
        encoder = masked_bert()
        pretrain_masked(encoder, LINES, MaskedPlan(passes=1, batch_size=16))
        ends.append(encoder.state_dict())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_most_asked_pieces_are_hidden_and_no_other_is_touched() -> None:
    model = _MaskedModel(masked_bert())
    pieces = torch.full((100, 200), 4)
    asked = torch.zeros(pieces.shape, dtype=torch.bool)
    asked[:, ::2] = True
    shown = model._corrupt(pieces, asked, torch.Generator().manual_seed(0))
    assert torch.equal(shown[~asked], pieces[~asked])
    hidden = float((shown[asked] == model.mask).float().mean())
    kept = float((shown[asked] == 4).float().mean())
    assert 0.78 < hidden < 0.84  # a tenth is random, and may be the mask as well
    assert 0.08 < kept < 0.14


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(InvalidInput, match="Expected text to learn from"):
        pretrain_masked(masked_bert(), ["", " "])
    with pytest.raises(InvalidInput, match="MASK"):
        pretrain_masked(tiny_bert(), LINES)
    with pytest.raises(InvalidInput, match="longest"):
        MaskedPlan(longest=2)
