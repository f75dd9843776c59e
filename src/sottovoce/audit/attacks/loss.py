"""The loss-threshold attack: records with a low loss are likely members (Yeom et al. 2018)."""

from numpy.typing import ArrayLike

from sottovoce.audit._checks import Scores
from sottovoce.audit.scoring import log_probabilities

NAME = "loss threshold"


def loss_attack(target: ArrayLike) -> Scores:
    """Membership scores from the log-probabilities of the audited model only.

    The attack confuses easy records with members, so its AUC may be fair although it finds almost
    no members at a low false positive rate.

    >>> loss_attack([-2.0, -0.1]).tolist()
    [-2.0, -0.1]
    """
    return log_probabilities(target)
