"""Losses by example: equal to those of each example alone, whatever is beside it."""

import pytest
import torch
from torch.nn import functional

from sottovoce.errors import InvalidInput
from sottovoce.training.losses import causal_lm_losses, class_losses, span_losses, token_losses

LOGITS = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([[1, 2, 3, 4, 5], [6, 0, -100, -100, -100], [-100] * 5])


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_tokens(reduction: str) -> None:
    found = token_losses(LOGITS, LABELS, reduction)
    for example in range(2):
        alone = functional.cross_entropy(LOGITS[example], LABELS[example], reduction=reduction)
        torch.testing.assert_close(found[example], alone)
    assert found[2] == 0  # without any label


def test_a_decoder_predicts_the_next_token() -> None:
    found = causal_lm_losses(LOGITS, LABELS)
    alone = functional.cross_entropy(LOGITS[0, :-1], LABELS[0, 1:])
    torch.testing.assert_close(found[0], alone)


def test_classes_numbers_and_spans() -> None:
    logits, labels = LOGITS[:, 0], torch.tensor([0, 6, 3])
    expected = functional.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(class_losses(logits, labels), expected)
    several = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    alone = functional.binary_cross_entropy_with_logits(logits[0, :2], several[0])
    torch.testing.assert_close(class_losses(logits[:2, :2], several)[0], alone)
    assert class_losses(torch.ones(2, 1), torch.tensor([3.0, 1.0])).tolist() == [4, 0]
    spans = span_losses(logits, logits, labels, torch.tensor([0, 6, 99]))
    torch.testing.assert_close(spans[:2], expected[:2])
    torch.testing.assert_close(spans[2], expected[2] / 2)  # an answer cut off


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(InvalidInput, match="tokens, classes"):
        token_losses(LOGITS, LABELS[:, 1:])
    with pytest.raises(InvalidInput, match="one label"):
        class_losses(LOGITS, LABELS)
    with pytest.raises(InvalidInput, match="reduction"):
        token_losses(LOGITS, LABELS, "max")
