"""One loss per example, as private training needs it, for the usual kinds of models.

A mean over the tokens of a batch would divide each example by the lengths of the others. Here it is
the mean over the tokens of one example, or their sum. Labels of -100 do not count.
"""

from enum import StrEnum

import torch
from torch import Tensor
from torch.nn import functional

from sottovoce import _validate
from sottovoce.errors import InvalidInput

IGNORED = -100


class Reduction(StrEnum):
    """How the losses of the tokens of one example become its loss."""

    MEAN = "mean"
    SUM = "sum"


def token_losses(
    logits: Tensor, labels: Tensor, reduction: Reduction | str = Reduction.MEAN
) -> Tensor:
    """[examples] from logits [examples, tokens, classes] and labels [examples, tokens].

    For seq2seq models, masked language models and token classifiers.

    >>> logits = torch.zeros(2, 3, 4)
    >>> labels = torch.tensor([[1, 2, -100], [3, -100, -100]])
    >>> token_losses(logits, labels, "sum")
    tensor([2.7726, 1.3863])
    >>> token_losses(logits, labels)
    tensor([1.3863, 1.3863])
    """
    if logits.dim() != 3 or logits.shape[:2] != labels.shape:
        raise InvalidInput(
            "Expected logits [examples, tokens, classes] and labels [examples, tokens], got shapes "
            f"{list(logits.shape)} and {list(labels.shape)}."
        )
    reduction = _validate.choice("reduction", reduction, Reduction)
    by_token = functional.cross_entropy(
        logits.transpose(1, 2).float(), labels, ignore_index=IGNORED, reduction="none"
    )
    if reduction is Reduction.SUM:
        return by_token.sum(1)
    return by_token.sum(1) / (labels != IGNORED).sum(1).clamp(min=1)


def causal_lm_losses(
    logits: Tensor, labels: Tensor, reduction: Reduction | str = Reduction.MEAN
) -> Tensor:
    """[examples] for a decoder: position t predicts label t + 1, as in transformers.

    `labels` are usually the input ids, with -100 in padding and in prompts.
    """
    return token_losses(logits[:, :-1], labels[:, 1:], reduction)


def class_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """[examples] for a classifier: one class, several classes (float labels) or one number.

    >>> class_losses(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor([1.3863, 1.3863])
    """
    if logits.dim() != 2 or len(logits) != len(labels):
        raise InvalidInput(
            "Expected logits [examples, classes] and one label or row of labels for each example, "
            f"got shapes {list(logits.shape)} and {list(labels.shape)}."
        )
    if logits.shape[1] == 1:
        return (logits.flatten().float() - labels.flatten().float()).square()
    if labels.is_floating_point():
        losses = functional.binary_cross_entropy_with_logits(
            logits.float(), labels, reduction="none"
        )
        return losses.mean(1)
    return functional.cross_entropy(logits.float(), labels, reduction="none")


def span_losses(starts: Tensor, ends: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """[examples] for extractive question answering: the mean of both ends of the answer."""
    outside = starts.shape[1]
    first, last = (
        functional.cross_entropy(
            logits.float(),
            place.clamp(0, outside).masked_fill(place >= outside, IGNORED),
            ignore_index=IGNORED,
            reduction="none",
        )
        for logits, place in ((starts, start), (ends, end))
    )
    return torch.add(first, last) / 2
