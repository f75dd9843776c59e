"""An n-gram model as plain arrays in one memory-mapped file.

Loading reads the words, not the n-grams: only the pages touched by lookups are read, and processes
share them. The file is a line of JSON (sizes and words) followed, for every order, by sorted keys,
ln p and ln backoff as little-endian 64-bit numbers. It cannot execute code. Scores equal those of
the source ARPA file bit for bit.
"""

import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output
from sottovoce.personalize.lm.ngram.model import NEVER, Ints, NGramModel, Order
from sottovoce.personalize.lm.vocabulary import Vector

_MAGIC = b"sottovoce n-gram 1\n"
_ALIGNED = 64
_INTEGERS, _FLOATS = np.dtype("<i8"), np.dtype("<f8")


def write_compiled(path: Path | str, model: NGramModel, *, arpa: Path | str | None = None) -> None:
    """Write the model, with a fingerprint of the equivalent ARPA file, if there is one."""
    about = {
        "words": model.words,
        "orders": [order.keys.size for order in model.orders],
        "arpa": None if arpa is None else fingerprint(arpa),
    }
    head = _MAGIC + json.dumps(about).encode() + b"\n"
    with output(path) as stream:
        stream.write(head + bytes(-len(head) % _ALIGNED))
        for number, order in enumerate(model.orders, 1):
            stream.write(order.keys.astype(_INTEGERS).tobytes())
            stream.write(order.log_probability.astype(_FLOATS).tobytes())
            # The highest order has no back-off weights.
            if number < len(model.orders):
                stream.write(order.log_backoff.astype(_FLOATS).tobytes())


def read_compiled(path: Path | str, *, arpa: Path | str | None = None) -> NGramModel | None:
    """The model; None if it was not made from the given ARPA file."""
    try:
        with Path(path).open("rb") as stream:
            if stream.read(len(_MAGIC)) != _MAGIC:
                raise ValueError("its header is not that of one")
            line = stream.readline()
            about = json.loads(line)
            sizes = [int(size) for size in about["orders"]]
            words = tuple(map(str, about["words"]))
        if arpa is not None and about["arpa"] != fingerprint(arpa):
            return None
        return NGramModel(words, _orders(Path(path), len(_MAGIC) + len(line), sizes, len(words)))
    except (LookupError, TypeError, ValueError) as problem:
        raise InvalidInput(f"Expected a compiled n-gram model in {path}, but {problem}.") from None


def as_written(model: NGramModel) -> NGramModel:
    """The model rounded to the seven digits of an ARPA file."""
    orders = []
    for number, order in enumerate(model.orders, 1):
        last = number == len(model.orders)
        backoff = np.zeros(order.keys.size) if last else _seven_digits(order.log_backoff)
        orders.append(Order(order.keys, _seven_digits(order.log_probability), backoff))
    return NGramModel(model.words, tuple(orders), model.background)


def fingerprint(arpa: Path | str) -> list[int]:
    """Identifies an ARPA file by its length and a checksum of its beginning and end.

    A compressed file ends with the checksum of its whole content.
    """
    path = Path(arpa)
    size = path.stat().st_size
    with path.open("rb") as stream:
        first = stream.read(4096)
        stream.seek(max(size - 4096, 0))
        return [size, zlib.crc32(first + stream.read())]


def _orders(path: Path, head: int, sizes: list[int], words: int) -> tuple[Order, ...]:
    if not sizes or min(sizes) < 0 or sizes[0] != words:
        raise ValueError("its sizes do not match its words")
    place = head + -head % _ALIGNED
    if path.stat().st_size != place + 8 * (3 * sum(sizes) - sizes[-1]):
        raise ValueError("its length is wrong: it was truncated or altered")
    whole = np.memmap(path, np.uint8, "r", offset=0)
    orders = []

    def take(size: int, kind: np.dtype[Any]) -> np.ndarray:
        nonlocal place
        part = whole[place : place + 8 * size].view(kind)
        place += 8 * size
        # A plain array over the same pages, because memmap objects are slower to slice.
        return np.asarray(part)

    for number, size in enumerate(sizes, 1):
        keys: Ints = take(size, _INTEGERS)
        log_probability: Vector = take(size, _FLOATS)
        is_last = number == len(sizes)
        orders.append(
            Order(keys, log_probability, np.zeros(size) if is_last else take(size, _FLOATS))
        )
    return tuple(orders)


def _seven_digits(values: Vector) -> Vector:
    scale = math.log(10)
    read = [max(float(f"{value:.7g}"), NEVER) for value in (values / scale).tolist()]
    rounded: Vector = np.array(read) * scale
    return rounded
