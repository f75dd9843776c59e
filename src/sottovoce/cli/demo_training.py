"""The demo's training: one small intent model, trained three ways, each with its cost and leak.

A linear model on hashed words is enough to show the trade: plain SGD fits best and promises
nothing, DP-SGD keeps its promise, and eDP-SGD as printed promises what its mechanism does not give.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sottovoce.audit import loss_attack, measure
from sottovoce.corpora import Split, Utterance
from sottovoce.privacy.guarantee import Claim, Guarantee
from sottovoce.training import Method, Plan, PrivateTraining

WORDS = 1024  # the size of the hashed vocabulary: no word list is taken from private text
EPSILON, DELTA, EPOCHS, STEPS = 3.0, 1e-4, 25, 10


@dataclass(frozen=True)
class Trained:
    """What one way of training came to."""

    name: str
    accuracy: float
    auc: float
    guarantee: Guarantee
    claimed: Claim | None


def train_three_ways(utterances: Sequence[Utterance], intents: Sequence[str]) -> Iterator[Trained]:
    """Train on one half, test on the other; intents are declared, not collected."""
    torch.set_num_threads(1)  # the tensors are small: a second thread would only wait for the first
    rule = Split(ratios=(50, 1, 49), by="user")
    parts = {"train": [u for u in utterances if rule.part(u) == "train"],
             "test": [u for u in utterances if rule.part(u) == "test"]}  # fmt: skip
    x, y = _tensors(parts["train"], intents)
    unseen = _tensors(parts["test"], intents)
    batch_size = max(1, len(x) // STEPS)
    size = batch_size * STEPS  # a few examples may be left over
    settings: dict[str, Any] = {
        "population": size,
        "batch_size": batch_size,
        "epochs": EPOCHS,
        "delta": DELTA,
    }
    private = Plan(**settings).calibrate(epsilon=EPSILON)
    printed = Plan.edpsgd_as_printed(**settings, workers=8, noise_multiplier=0.5)
    plans = {
        "SGD": Plan(**settings, method=Method.SGD),
        f"DP-SGD, epsilon {EPSILON:g}": private,
        "eDP-SGD as printed": printed,
    }
    for name, plan in plans.items():
        torch.manual_seed(0)
        model = nn.Linear(WORDS, len(intents))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        training = PrivateTraining(plan, model, optimizer, owners=size)
        for step in training.steps():
            for batch in step:
                step.backward(cross_entropy(model(x[batch]), y[batch], reduction="none"))
        with torch.no_grad():
            accuracy = float((model(unseen[0]).argmax(1) == unseen[1]).float().mean())
            members, others = _log_probabilities(model, x, y), _log_probabilities(model, *unseen)
        outcome = measure("loss threshold", loss_attack(members), loss_attack(others))
        claimed = None if plan.method is Method.SGD else plan.statement().claimed
        yield Trained(name, accuracy, outcome.auc, training.guarantee(), claimed)


def _log_probabilities(model: nn.Module, x: Tensor, y: Tensor) -> list[float]:
    losses: list[float] = (-cross_entropy(model(x), y, reduction="none")).tolist()
    return losses


def _tensors(utterances: Sequence[Utterance], intents: Sequence[str]) -> tuple[Tensor, Tensor]:
    x = torch.zeros(len(utterances), WORDS)
    for row, utterance in enumerate(utterances):
        words = utterance.tokens
        for feature in (*words, *(f"{a} {b}" for a, b in pairwise(words))):
            x[row, zlib.crc32(feature.encode()) % WORDS] = 1.0
    number = {intent: place for place, intent in enumerate(intents)}
    return x, torch.tensor([number[utterance.intent] for utterance in utterances])
