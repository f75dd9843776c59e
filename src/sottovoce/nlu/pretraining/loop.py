"""The pretraining loop: no privacy, but progress, checkpoints and early stopping.

The data is public, so gradients are not clipped per example and nothing is accounted.
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
"""Batches sorted by length together: little padding, and batches still vary."""


def bucket_by_length(
    lengths: Sequence[int], batch_size: int, draws: random.Random
) -> list[list[int]]:
    """Each index of `lengths` once, in batches of similar length.

    >>> batches = bucket_by_length([3, 9, 3, 9], 2, random.Random(0))
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
"""Number of checkpoints during pretraining."""
WARMUP = 0.05
"""Fraction of the steps with a linear warm-up of the learning rate."""
MAX_GRADIENT_NORM = 1.0
SMOOTHING = 0.05
"""Weight of the newest loss in the moving average that is shown."""


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """Result of pretraining; `stopped` if it was stopped before its last step."""

    steps: int
    loss: float
    seconds: float
    stopped: bool


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """Checkpointing and callbacks of a pretraining loop.

    `settings` are stored in the checkpoint and must be the same on resuming.
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
    loop: LoopOptions | None = None,
) -> Pretrained:
    """Minimise `loss_of(step)`, with a learning rate per module in `rates`."""
    loop = loop or LoopOptions()
    if steps < 1:
        raise InvalidInput(f"Expected at least one step of pretraining, got {steps}.")
    groups: list[dict[str, Any]] = [
        {"params": [p for p in module.parameters() if p.requires_grad], "rate": rate}
        for module, rate in rates
    ]
    optimizer = AdamW(groups, lr=0.0, weight_decay=0.01)
    weights = [weight for group in groups for weight in group["params"]]
    step, shown = 0, float("nan")
    if loop.resume and loop.checkpoint is not None:
        step, shown = _resume(loop, model, optimizer)
    marks = {round(steps * mark / SAVES) for mark in range(1, SAVES)}
    begun, first, stopped = time.monotonic(), step, False
    model.train()
    while step < steps and not stopped:
        for group in optimizer.param_groups:
            group["lr"] = group["rate"] * _factor(step, steps)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(step)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(weights, MAX_GRADIENT_NORM)
        optimizer.step()
        step += 1
        now = float(loss.detach())
        shown = now if shown != shown else shown + SMOOTHING * (now - shown)
        stopped = step < steps and loop.should_stop()
        if loop.checkpoint is not None and (step in marks or stopped):
            _save(loop, model, optimizer, step, shown)
        pace = (time.monotonic() - begun) / (step - first)
        left = pace * (steps - step)
        loop.on_step(Progress(step=step, steps=steps, loss=shown, seconds_left=left))
    model.eval()
    seconds = time.monotonic() - begun
    return Pretrained(steps=step, loss=shown, seconds=seconds, stopped=stopped)


def _factor(step: int, steps: int) -> float:
    """Linear warm-up, then linear decay.

    >>> [round(_factor(step, 100), 2) for step in (0, 4, 50, 99)]
    [0.2, 1.0, 0.5, 0.01]
    """
    rise = max(1, round(WARMUP * steps))
    return min(1.0, (step + 1) / rise) * (1.0 if step < rise else 1 - step / steps)


def _save(loop: LoopOptions, model: nn.Module, optimizer: AdamW, step: int, shown: float) -> None:
    assert loop.checkpoint is not None
    save_checkpoint(
        loop.checkpoint,
        {
            "sottovoce": __version__,
            "settings": dict(loop.settings or {}),
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "step": step,
            "loss": shown,
        },
    )


def _resume(loop: LoopOptions, model: nn.Module, optimizer: AdamW) -> tuple[int, float]:
    assert loop.checkpoint is not None
    state = load_checkpoint(loop.checkpoint)
    if state.get("settings") != dict(loop.settings or {}):
        raise InvalidInput(
            f"Expected the settings and data of the checkpoint {loop.checkpoint}, got others: "
            "pass the same ones, or start in another folder."
        )
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    return int(state["step"]), float(state["loss"])
