"""The free attack: what the model fits better, it has rather seen (Yeom et al. 2018)."""

from numpy.typing import ArrayLike

from sottovoce.audit._checks import Scores
from sottovoce.audit.scoring import log_probabilities

NAME = "loss threshold"


def loss_attack(target: ArrayLike) -> Scores:
    """Scores of membership from the audited model's log-probabilities alone.

    It finds sentences that are easy rather than sentences that were seen, which is why its AUC
    may be fair while it finds next to nobody at a low false positive rate.

    >>> loss_attack([-2.0, -0.1]).tolist()
    [-2.0, -0.1]
    """
    return log_probabilities(target)
