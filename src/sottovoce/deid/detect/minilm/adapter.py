"""The file of an adapter: what is added to MiniLM's weights, in at most a megabyte.

For every matrix there are two small ones in 8 bits with a scale a row, whose product is added to
it; biases, layer norms, the head and the vectors of cases are in 16 bits. The file is safetensors
with its description as metadata: nothing in it is executed.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from sottovoce.deid.detect.minilm.network import Shape
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output

FORMAT = 1
LARGEST = 1_000_000
"""Bytes of a file that is shipped."""
_PARTS = ("down", "up")


def packed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Small matrices in 8 bits, all else in 16."""
    found: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if name.rpartition(".")[2] in _PARTS:
            scale = value.abs().amax(1).clamp(min=1e-8) / 127
            found[name] = (value / scale[:, None]).round().to(torch.int8)
            found[f"{name}.scale"] = scale.half()
        else:
            found[name] = value.half()
    return found


def unpacked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What `packed` made, as numbers of 32 bits."""
    found = {}
    for name, value in tensors.items():
        if value.dtype == torch.int8:
            found[name] = value.float() * tensors[f"{name}.scale"].float()[:, None]
        elif not name.endswith(".scale"):
            found[name] = value.float()
    return found


def merged(
    base: Mapping[str, Tensor], adapter: Mapping[str, Tensor], shape: Shape
) -> dict[str, Tensor]:
    """The weights of the whole network."""
    weights = dict(base)
    for name in shape.matrices():
        if f"{name}.down" in adapter:
            change = adapter[f"{name}.up"] @ adapter[f"{name}.down"]
            weights[f"{name}.weight"] = weights[f"{name}.weight"] + change
    for name in (*shape.vectors(), "cases", "head.weight", "head.bias"):
        if name in adapter:
            weights[name] = adapter[name]
    return weights


def write_adapter(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write the file, whole or not at all; equal adapters give equal bytes."""
    told = json.dumps({**about, "format": FORMAT}, sort_keys=True)
    content = save(
        {name: packed(tensors)[name].contiguous() for name in sorted(packed(tensors))},
        {"about": told},
    )
    with output(path) as stream:
        stream.write(content)


def read_adapter(path: Path) -> tuple[dict[str, Tensor], dict[str, Any], str]:
    """The tensors, the description, and the hash of a file; a damaged one is refused."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["about"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError) as problem:
        raise InvalidInput(f"{path}: Expected the adapter of a detector, got {problem}.") from None
    if about.get("format") != FORMAT:
        raise InvalidInput(
            f"{path}: Expected an adapter of format {FORMAT}, got {about.get('format')!r}."
        )
    return unpacked(tensors), about, hashlib.sha256(path.read_bytes()).hexdigest()
