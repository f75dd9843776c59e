"""All attacks that need no more than scores, on the same members and non-members."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.audit._checks import Scores
from sottovoce.audit.attacks import likelihood_ratio, loss, relative_odds
from sottovoce.audit.attacks.references import ReferenceScores
from sottovoce.audit.outcome import AttackOutcome, measure_all
from sottovoce.audit.scoring import ScoringFunction, log_probabilities

Record = TypeVar("Record")


class Attack(StrEnum):
    """What can be asked for; the loss attack is free and always runs."""

    LOSS = "loss"
    SHADOW = "shadow"
    LIRA = "lira"
    RMIA = "rmia"
    ONE_RUN = "one-run"


def membership_attacks(
    score: ScoringFunction[Record],
    members: Sequence[Record],
    non_members: Sequence[Record],
    *,
    references: ReferenceScores | None = None,
    attacks: Collection[Attack] = (Attack.LIRA, Attack.RMIA),
    others: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    confidence: float = 0.95,
) -> list[AttackOutcome]:
    """Run the loss attack, and with references LiRA and RMIA, and measure them together.

    The columns of `references` are the members followed by the non-members. `others` adds the
    scores of further attacks (the shadow attack) on the same members and non-members.

    >>> outcomes = membership_attacks(lambda records: [-0.1 * r for r in records],
    ...                               [1, 2, 3], [4, 5, 2.5])
    >>> [(outcome.attack, round(outcome.auc, 3)) for outcome in outcomes]
    [('loss threshold', 0.889)]
    """
    target = np.concatenate(
        [
            log_probabilities(score(members), len(members)),
            log_probabilities(score(non_members), len(non_members)),
        ]
    )
    scores: dict[str, Scores] = {loss.NAME: loss.loss_attack(target)}
    if references is not None and Attack.LIRA in attacks:
        scores[likelihood_ratio.ONLINE] = likelihood_ratio.lira(target, references)
        scores[likelihood_ratio.OFFLINE] = likelihood_ratio.lira_offline(target, references)
    if references is not None and Attack.RMIA in attacks:
        scores[relative_odds.NAME] = relative_odds.rmia(target, references)
    size = len(members)
    pairs: dict[str, tuple[ArrayLike, ArrayLike]] = {
        name: (values[:size], values[size:]) for name, values in scores.items()
    }
    return measure_all(pairs | dict(others or {}), confidence)
