"""What a pass did, as far as the treatment of examples depends on it: which layers ran, on what.

Passes of the same form treat examples the same way. The sizes of their inputs, rounded to powers of
two, show whether much longer or shorter inputs were seen before. A form is taken of every piece of
a training, so it must be quick: forms that were met before are looked up.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

Input = tuple[str, torch.dtype, int, torch.Size]
"""The layer that read it, its type, its rows for each example, and the rest of its shape."""
Modes = tuple[tuple[int, bool], ...]
"""The modules of a model, and whether they train."""
# Rows for each example: one, or one for all examples together; otherwise, words are folded in.
EACH, SHARED = 1, -1
# Forms to remember.
MANY = 1000


@dataclass(frozen=True, eq=False)
class Form:
    """The form of a pass; two passes that read the same have the same object."""

    structure: object = ()
    sizes: frozenset[object] = frozenset()


class Forms:
    """The forms of passes.

    >>> forms, long, longer = Forms(), torch.Size([20, 8]), torch.Size([22, 8])
    >>> first = forms.of([("head", torch.float32, EACH, long)])
    >>> first.sizes == forms.of([("head", torch.float32, EACH, longer)]).sizes
    True
    >>> first.sizes == forms.of([("head", torch.float32, EACH, torch.Size([40, 8]))]).sizes
    False
    """

    def __init__(self, modes: Modes = ()) -> None:
        self.modes = modes
        self._met: dict[tuple[Input, ...], Form] = {}

    def of(self, inputs: Iterable[Input]) -> Form:
        key = tuple(inputs)
        form = self._met.get(key)
        if form is None:
            if len(self._met) >= MANY:
                self._met.clear()
            structure, sizes = _form(key)
            form = self._met[key] = Form((structure, self.modes), sizes)
        return form


def _form(inputs: Iterable[Input]) -> tuple[object, frozenset[object]]:
    structure: list[object] = []
    sizes: set[object] = set()
    for layer, dtype, rows, shape in inputs:
        relation = rows if rows in (EACH, SHARED) else "folded"
        structure.append((layer, dtype, len(shape), relation))
        # One by one: that each is known is enough, whatever the others are.
        sizes |= {(layer, at, _magnitude(n)) for at, n in enumerate((abs(rows), *shape))}
    return tuple(structure), frozenset(sizes)


def _magnitude(size: int) -> int:
    """The nearest power of two: sizes that vary around a power of two stay in one class.

    >>> [_magnitude(size) for size in (45, 46, 64, 90, 91)]
    [6, 7, 7, 7, 8]
    """
    return (size * 181 >> 7).bit_length()
