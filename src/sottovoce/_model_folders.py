"""Model folders from strangers: no code from them, no downloads, no more memory than their weights.

A configuration of a few bytes can describe a model of any size, and building it takes the memory
before the weights are compared. So the size is bounded by the weights that the folder really holds.
"""

import json
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sottovoce.errors import InvalidInput

LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
"""Arguments of every `from_pretrained`. Without the second, transformers asks on a terminal."""
_SLACK = 8_000_000
"""Elements beyond the weights: buffers, heads that are left out, weights that are saved once."""


def elements(folder: Path) -> int:
    """How many numbers the safetensors files of a folder hold, by their headers."""
    return sum(_elements(path) for path in folder.glob("*.safetensors"))


def _elements(path: Path) -> int:
    size = path.stat().st_size
    with path.open("rb") as stream:
        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 0 < length <= size - 8:
            raise InvalidInput(f"Expected safetensors in {path}, got a damaged file.")
        try:
            header = json.loads(stream.read(length))
            shapes = [part["shape"] for name, part in header.items() if name != "__metadata__"]
            found = sum(int(math.prod(shape)) for shape in shapes)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise InvalidInput(f"Expected safetensors in {path}, got a damaged file.") from problem
    # A header can lie, the length of the file cannot.
    return min(found, size)


@contextmanager
def bounded(held: int, where: str | Path) -> Iterator[None]:
    """Refuse to make tensors of far more elements in all than the weights have.

    >>> import torch
    >>> with bounded(1000, "model/"):
    ...     layers = [torch.nn.Linear(5000, 5000) for _ in range(10**6)]
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected a model of about 1,000 weights in model/, as its files
    hold; its configuration describes a larger one.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    sized = {torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.full}
    alike = {torch.empty_like, torch.zeros_like, torch.ones_like}

    class Bound(TorchFunctionMode):
        left = 2 * held + _SLACK

        def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func in sized:
                self._take(math.prod(_sizes(args, kwargs)))
            elif func in alike:
                self._take(args[0].numel())
            return func(*args, **kwargs)

        def _take(self, count: int) -> None:
            self.left -= count
            if self.left < 0:
                raise InvalidInput(
                    f"Expected a model of about {held:,} weights in {where}, as its files hold; "
                    "its configuration describes a larger one."
                )

    with Bound():
        yield


def _sizes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    size = kwargs.get("size", args[0] if args and not isinstance(args[0], int) else args)
    return [int(each) for each in size]


def check_size(auto_model: Any, folder: Path) -> None:
    """Refuse a folder of transformers whose configuration describes more than its weights."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(str(folder), **LOCAL)
    with torch.device("meta"), bounded(elements(folder), folder):
        auto_model.from_config(config, trust_remote_code=False)
