"""Start the heads of a new model from the names of its labels.

The adapter's heads score labels by name, from the last layer of the encoder. The heads of a model
read whitened vectors of several layers, from which the last layer can be estimated linearly, so
the scores by name become initial weights. Only names and public text are used, no training data.
"""

import torch
from torch import Tensor

from sottovoce.nlu.encoders.label_names import NameHeads
from sottovoce.nlu.encoders.whitening import Moments, PublicStatistics
from sottovoce.nlu.model import JointModel

STRENGTH = 0.7
"""Factor of the scores by name: they should suggest a label, not insist on it."""


@torch.no_grad()
def start_from_names(
    model: JointModel,
    heads: NameHeads,
    slot_types: Tensor,
    intents: Tensor,
    statistics: PublicStatistics,
) -> None:
    """Set the initial weights of the heads; `slot_types` and `intents` are vectors of the names."""
    readout = model.readout
    weight, bias = heads.tag_weights(model.schema.tags, slot_types)
    weight, bias = _seen_by(statistics.words, readout.words.scale, weight, bias)
    tags = len(model.schema.tags)
    own = torch.ones(tags) if model.tag_features is None else model.tag_features.diagonal()
    model.slot.weight[:tags, : weight.shape[1]] = STRENGTH * weight / own[:, None]
    model.slot.bias[:tags] = STRENGTH * bias / own
    by_intent = heads.intent_weights(intents)
    weight, bias = _seen_by(
        statistics.utterances, readout.utterance.scale, by_intent, torch.zeros(len(by_intent))
    )
    model.intent.weight.copy_(STRENGTH * weight)
    model.intent.bias.copy_(STRENGTH * bias)


def _seen_by(
    moments: Moments, scale: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """A linear layer over whitened vectors, for one over the last layer of the encoder.

    Least squares on public text: the last layer is about mean + whitened @ back.
    """
    mean, covariance = moments.finish()
    whitening, width = scale.double(), weight.shape[1]
    spread = whitening.T @ covariance @ whitening
    spread += 1e-6 * spread.diagonal().mean() * torch.eye(len(spread), dtype=spread.dtype)
    back = torch.linalg.solve(spread, whitening.T @ covariance[:, -width:])
    return weight @ back.T.to(weight.dtype), bias + weight @ mean[-width:].to(weight.dtype)
