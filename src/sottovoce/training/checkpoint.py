"""Checkpoints: weights, optimiser, step and ledger in one file, written atomically.

Noise and sampling keys are not saved: readers of a checkpoint must not learn which units were
sampled. A resumed run draws new keys.
"""

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output


def save_checkpoint(path: Path | str, state: Mapping[str, Any]) -> None:
    """Write tensors, numbers and strings only, so that loading executes no code."""
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
