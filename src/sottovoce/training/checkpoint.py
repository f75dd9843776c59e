"""The state of a training between steps: checkpoints, and averaged weights."""

import io
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output


def save_checkpoint(path: Path | str, state: Mapping[str, Any]) -> None:
    """Write tensors, numbers and strings only, so that loading executes no code.

    A checkpoint has weights, optimiser, step and ledger in one file, written atomically. Noise and
    sampling keys are not saved: readers of a checkpoint must not learn which units were sampled. A
    resumed run draws new keys.
    """
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    with output(path) as stream:
        stream.write(buffer.getbuffer())


def load_checkpoint(path: Path | str) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InvalidInput(f"Expected a checkpoint at {path}, found nothing there.") from None
    except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as problem:
        raise InvalidInput(
            f"Expected a checkpoint at {path}, but the file cannot be read."
        ) from problem
    if not isinstance(state, dict) or "sottovoce" not in state:
        raise InvalidInput(
            f"Expected a checkpoint of private training at {path}, got another file."
        )
    return state


class TailAverage:
    """The running mean of some parameters from step `start` on.

    Noise makes the iterates fluctuate around a good point; their mean is closer to it. Every
    iterate is a private release that is already accounted, so averaging is free post-processing.

    >>> weight = nn.Parameter(torch.tensor([0.0]))
    >>> average = TailAverage([weight], start=1)
    >>> for step, value in enumerate([100.0, 1.0, 3.0]):
    ...     _ = weight.data.fill_(value)
    ...     average.add(step)
    >>> average.put_in_place(); weight.item()
    2.0
    """

    def __init__(self, parameters: Iterable[nn.Parameter], *, start: int) -> None:
        self.start, self.count = start, 0
        self._parameters = [each for each in parameters if each.requires_grad]
        self._means: list[Tensor] = []

    @torch.no_grad()
    def add(self, step: int) -> None:
        """Include the weights after `step` (counted from 0)."""
        if step < self.start:
            return
        self.count += 1
        if self.count == 1:
            self._means = [each.detach().clone() for each in self._parameters]
        for mean, parameter in zip(self._means, self._parameters, strict=True):
            mean.lerp_(parameter, 1 / self.count)

    @torch.no_grad()
    def put_in_place(self) -> None:
        """Set the weights of the model to the mean; no effect before the first included step."""
        for mean, parameter in zip(self._means, self._parameters, strict=False):
            parameter.copy_(mean)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "means": self._means}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        means = list(state["means"])
        if means and [m.shape for m in means] != [p.shape for p in self._parameters]:
            raise InvalidInput(
                "Expected an average of this model's weights, got one of another model."
            )
        self.count, self._means = int(state["count"]), means
