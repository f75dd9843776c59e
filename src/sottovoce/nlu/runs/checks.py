"""Checks of the training data before the first step."""

import math
from collections.abc import Sequence
from pathlib import Path

from torch import nn

from sottovoce.corpora import OUTSIDE, Utterance
from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit.settings import Settings
from sottovoce.privacy.guarantee import Unit
from sottovoce.training import Method, Plan


def check_trainable(settings: Settings, utterances: Sequence[Utterance]) -> None:
    """Refuse data without labels, or with fewer units than one batch.

    >>> call = Utterance(tokens=("call", "mum"), slots=("O", "B-who"))
    >>> check_trainable(Settings(), [call, call])
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected an intent for every training utterance, got none for 2
    of 2, the first of them utterance 1: add intents, or leave these utterances out.
    """
    if not utterances:
        raise InvalidInput("Expected labelled utterances to train on, got none.")
    unlabelled = [number for number, u in enumerate(utterances, 1) if not u.intent]
    if len(unlabelled) == len(utterances) and all({*u.slots} == {OUTSIDE} for u in utterances):
        raise InvalidInput(
            f"Expected labelled utterances to train on, got {len(utterances):,} without intents "
            "and slots: add labels."
        )
    if unlabelled:
        raise InvalidInput(
            f"Expected an intent for every training utterance, got none for {len(unlabelled):,} "
            f"of {len(utterances):,}, the first of them utterance {unlabelled[0]:,}: add intents, "
            "or leave these utterances out."
        )
    if settings.unit is not Unit.USER:
        units = len(utterances)
    elif all(utterance.user for utterance in utterances):
        units = len({utterance.user for utterance in utterances})
    else:
        return  # `owners_of` reports the missing user
    if units < 2:
        raise InvalidInput(f"Expected at least two {settings.unit}s to train on, got one.")
    units = max(units, settings.population or 0)  # batches are sampled from the population
    if settings.batch_size is not None and settings.batch_size > units:
        raise InvalidInput(
            f"Expected at least as many {settings.unit}s as the batch size of "
            f"{settings.batch_size:,}, got {units:,}: choose a smaller batch size."
        )


def check_signal(settings: Settings, plan: Plan, model: nn.Module) -> None:
    """Refuse eDP-SGD at an epsilon where the noise drowns what is learnt.

    Each of its workers adds at most one clipped mean gradient to a step, whatever the batch size;
    the noise grows with the number of trained weights.
    """
    if plan.method is not Method.EDP_SGD or settings.epsilon is None:
        return
    weights = sum(p.numel() for p in model.parameters() if p.requires_grad)
    signal = plan.workers * math.sqrt(plan.steps)
    noise = plan.noise_multiplier * math.sqrt(weights)
    if noise > signal:
        raise InvalidInput(
            f"Expected dp-sgd for an epsilon of {settings.epsilon:g}, got edp-sgd: it adds one "
            f"clipped gradient per worker and step, so the noise of {plan.workers} would be about "
            f"{max(2.0, noise / signal):,.0f} times what is learnt. Use --method dp-sgd; to "
            "reproduce the paper, set its --noise-multiplier instead of an epsilon."
        )


def check_samples(settings: Settings, data: str | Path) -> None:
    """Refuse samples that are part of the private data: training on them adds no noise."""
    if settings.samples is None:
        return
    learnt, private = Path(settings.samples).resolve(), Path(data).resolve()
    if learnt.is_relative_to(private) or private.is_relative_to(learnt):
        raise InvalidInput(
            f"Expected public samples, got {settings.samples}, which contains or is part of the "
            "private data."
        )
