"""What every record of a gradient can do, whatever form it is held in."""

from typing import Protocol

from torch import Tensor

from sottovoce.training.records.weights import GroupWeights


class Record(Protocol):
    """The gradients of one use of a parameter (and of biases beside it), for all groups."""

    def measure(self) -> tuple[Tensor, Tensor]:
        """[count] squared norms, all parameters of the record together, and [count] their sizes.

        A size is the norm before anything cancels, sum_r ||b_r|| ||a_r|| for factors: what the
        rounding errors of a sum of products are relative to.
        """

    def instantiate(self) -> Tensor:
        """[count, *shape] the gradients of the first parameter in full."""

    def weighted_sums(self, weights: GroupWeights) -> tuple[Tensor, ...]:
        """sum_g w_g g_g for each parameter of the record; fresh tensors."""
