"""Show that the loss of an example depends on that example only, before any norm is believed.

Rules take the first dimension of a layer's input for the examples. A time-major tensor, rows in
another order, position numbers without a batch dimension, or a loss that compares examples would
all give norms of something else, and no shape tells. Their gradients do: with the losses of every
second group only, the other groups must receive exactly nothing, in every layer.
"""

import torch
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.training.records.tape import Tape


def check_independence(tape: Tape, losses: Tensor, layer_names: tuple[str, ...]) -> bool:
    """Run one more backward pass, for half of the groups that have examples.

    False if there are not two such groups, so that nothing can be shown yet.
    """
    present = torch.unique(tape.grouping.labels)
    chosen, others = present[::2], present[1::2]
    if len(others) == 0:
        return False
    with tape.probe():
        half = losses[torch.isin(tape.grouping.labels, chosen)]
        half.sum().backward(retain_graph=True, inputs=tape.leaves)  # type: ignore[no-untyped-call]
        norms = tape.squared_norms()[:, others]
    touched = torch.isfinite(norms) & (norms > 0)
    if not bool(touched.any()):
        return True
    layers = [name for name, rows in zip(layer_names, touched, strict=True) if bool(rows.any())]
    raise InvalidInput(
        "Expected the loss of an example to depend on that example alone, got gradients of other "
        f"examples in {', '.join(layers)}. Either the first dimension of what these layers are "
        "given is not the examples (time first, another order, or position numbers without a "
        "batch dimension: give them one), or the model or the loss compares examples."
    )
