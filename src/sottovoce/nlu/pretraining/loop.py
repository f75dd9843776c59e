"""The loop of a pretraining: no privacy, but a time left, checkpoints, and a stop when asked.

What is learnt from is public here, so nothing is clipped and nothing is accounted.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from sottovoce import __version__
from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit.loop import Progress
from sottovoce.training.checkpoint import load_checkpoint, save_checkpoint

POOL = 20
"""Batches that are sorted by length together: padding is rare, and batches still differ."""


def of_like_length(
    lengths: Sequence[int], batch_size: int, draws: random.Random
) -> list[list[int]]:
    """All numbers of `lengths` once, in batches.

    >>> batches = of_like_length([3, 9, 3, 9], 2, random.Random(0))
    >>> sorted(sorted(batch) for batch in batches)
    [[0, 2], [1, 3]]
    """
    order = list(range(len(lengths)))
    draws.shuffle(order)
    batches = []
    for start in range(0, len(order), batch_size * POOL):
        pool = sorted(order[start : start + batch_size * POOL], key=lengths.__getitem__)
        batches += [pool[at : at + batch_size] for at in range(0, len(pool), batch_size)]
    draws.shuffle(batches)
    return batches


SAVES = 20
"""How often a pretraining is saved on its way."""
WARMUP = 0.05
"""The part of the steps in which the learning rate grows from 0."""
LONGEST_GRADIENT = 1.0
SMOOTHING = 0.05
"""What the newest loss counts in the loss that is shown."""


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """What a pretraining came to; `stopped` if it was asked to stop before its last step."""

    steps: int
    loss: float
    seconds: float
    stopped: bool


@dataclass(frozen=True, kw_only=True)
class Watching:
    """Who wants to know of a pretraining, and where it is kept while it runs.

    `settings` are compared on resuming: a checkpoint continues the pretraining it is of.
    """

    checkpoint: Path | None = None
    resume: bool = False
    settings: Mapping[str, Any] | None = None
    on_step: Callable[[Progress], None] = lambda _: None
    should_stop: Callable[[], bool] = lambda: False


def run(
    model: nn.Module,
    rates: Sequence[tuple[nn.Module, float]],
    loss_of: Callable[[int], Tensor],
    steps: int,
    watching: Watching | None = None,
) -> Pretrained:
    """Minimise `loss_of(step)`, with a learning rate for each of the modules in `rates`."""
    watching = watching or Watching()
    if steps < 1:
        raise InvalidInput(f"Expected at least one step of pretraining, got {steps}.")
    groups: list[dict[str, Any]] = [
        {"params": [p for p in module.parameters() if p.requires_grad], "rate": rate}
        for module, rate in rates
    ]
    optimizer = AdamW(groups, lr=0.0, weight_decay=0.01)
    weights = [weight for group in groups for weight in group["params"]]
    step, shown = 0, float("nan")
    if watching.resume and watching.checkpoint is not None:
        step, shown = _resume(watching, model, optimizer)
    marks = {round(steps * mark / SAVES) for mark in range(1, SAVES)}
    begun, first, stopped = time.monotonic(), step, False
    model.train()
    while step < steps and not stopped:
        for group in optimizer.param_groups:
            group["lr"] = group["rate"] * _factor(step, steps)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(step)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(weights, LONGEST_GRADIENT)
        optimizer.step()
        step += 1
        now = float(loss.detach())
        shown = now if shown != shown else shown + SMOOTHING * (now - shown)
        stopped = step < steps and watching.should_stop()
        if watching.checkpoint is not None and (step in marks or stopped):
            _save(watching, model, optimizer, step, shown)
        pace = (time.monotonic() - begun) / (step - first)
        left = pace * (steps - step)
        watching.on_step(Progress(step=step, steps=steps, loss=shown, seconds_left=left))
    model.eval()
    seconds = time.monotonic() - begun
    return Pretrained(steps=step, loss=shown, seconds=seconds, stopped=stopped)


def _factor(step: int, steps: int) -> float:
    """A short rise, then straight down.

    >>> [round(_factor(step, 100), 2) for step in (0, 4, 50, 99)]
    [0.2, 1.0, 0.5, 0.01]
    """
    rise = max(1, round(WARMUP * steps))
    return min(1.0, (step + 1) / rise) * (1.0 if step < rise else 1 - step / steps)


def _save(watching: Watching, model: nn.Module, optimizer: AdamW, step: int, shown: float) -> None:
    assert watching.checkpoint is not None
    save_checkpoint(
        watching.checkpoint,
        {
            "sottovoce": __version__,
            "settings": dict(watching.settings or {}),
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "step": step,
            "loss": shown,
        },
    )


def _resume(watching: Watching, model: nn.Module, optimizer: AdamW) -> tuple[int, float]:
    assert watching.checkpoint is not None
    state = load_checkpoint(watching.checkpoint)
    if state.get("settings") != dict(watching.settings or {}):
        raise InvalidInput(
            f"Expected the settings and data that {watching.checkpoint} was begun with, got others."
        )
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    return int(state["step"]), float(state["loss"])
