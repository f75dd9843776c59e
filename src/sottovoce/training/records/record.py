"""The interface of all records of a gradient."""

from typing import Protocol

from torch import Tensor

from sottovoce.training.records.weights import GroupWeights


class Record(Protocol):
    """The gradients of one use of a parameter (and of its biases), for all groups."""

    def measure(self) -> tuple[Tensor, Tensor]:
        """[count] squared norms over all parameters of the record, and [count] magnitudes.

        A magnitude is the norm without cancellation, sum_r ||b_r|| ||a_r|| for factors. Rounding
        errors are relative to it.
        """

    def instantiate(self) -> Tensor:
        """[count, *shape] the materialised gradients of the first parameter."""

    def weighted_sums(self, weights: GroupWeights) -> tuple[Tensor, ...]:
        """sum_g w_g g_g for each parameter of the record, as new tensors."""
