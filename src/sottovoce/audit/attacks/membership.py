"""Registry of attacks, and a function that runs those that need only scores of the records."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sottovoce._registry import Registry
from sottovoce.audit import _checks
from sottovoce.audit._checks import Scores
from sottovoce.audit.attacks import score_attacks
from sottovoce.audit.attacks.score_attacks import ReferenceScores
from sottovoce.audit.result import AttackOutcome, measure_all
from sottovoce.audit.scoring import ScoringFunction, log_probabilities

Record = TypeVar("Record")


class Attack(StrEnum):
    """Names of attacks; the loss attack always runs, because it needs nothing else."""

    LOSS = "loss"
    SHADOW = "shadow"
    LIRA = "lira"
    RMIA = "rmia"
    ONE_RUN = "one-run"


@dataclass(frozen=True)
class MembershipAttack:
    """An attack on the log-probabilities of the audited model, one per record.

    `scores` returns one number per record (higher: more likely a member), or several such lists by
    name. Without reference models, its second argument is None.
    """

    scores: Callable[[Scores, ReferenceScores | None], ArrayLike | Mapping[str, ArrayLike]]
    needs_references: bool = False


def _lira(target: Scores, references: ReferenceScores | None) -> Mapping[str, ArrayLike]:
    assert references is not None
    return {
        score_attacks.ONLINE: score_attacks.lira(target, references),
        score_attacks.OFFLINE: score_attacks.lira_offline(target, references),
    }


def _rmia(target: Scores, references: ReferenceScores | None) -> Mapping[str, ArrayLike]:
    assert references is not None
    return {score_attacks.RMIA: score_attacks.rmia(target, references)}


ATTACKS: Registry[MembershipAttack] = Registry(
    "attack",
    {
        "loss": MembershipAttack(
            lambda target, _: {score_attacks.LOSS: score_attacks.loss_attack(target)}
        ),
        "lira": MembershipAttack(_lira, needs_references=True),
        "rmia": MembershipAttack(_rmia, needs_references=True),
    },
    group="sottovoce.membership_attacks",
    reserved=("shadow", "one-run", "all"),
)
"""Attacks on scores. The shadow attack and the one-run audit need other inputs (see `Attack`)."""


def attack_named(name: str) -> MembershipAttack:
    """The registered attack; a plain function is an attack without references."""
    found = ATTACKS.get(name)
    return found if isinstance(found, MembershipAttack) else MembershipAttack(found)


def membership_attacks(
    score: ScoringFunction[Record],
    members: Sequence[Record],
    non_members: Sequence[Record],
    *,
    references: ReferenceScores | None = None,
    attacks: Collection[str] = (Attack.LIRA, Attack.RMIA),
    others: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    confidence: float = 0.95,
) -> list[AttackOutcome]:
    """Run the loss attack and the named ones, with joint confidence intervals.

    Attacks that need references, such as LiRA and RMIA, run only if there are any. The columns of
    `references` are the members followed by the non-members. `others` adds the scores of other
    attacks (the shadow attack) on the same members and non-members.

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
    scores: dict[str, Scores] = {}
    for name in ATTACKS.names():
        if name == Attack.LOSS or name in attacks:
            scores |= _run(name, target, references)
    size = len(members)
    pairs: dict[str, tuple[ArrayLike, ArrayLike]] = {
        name: (values[:size], values[size:]) for name, values in scores.items()
    }
    return measure_all(pairs | dict(others or {}), confidence)


def _run(name: str, target: Scores, references: ReferenceScores | None) -> dict[str, Scores]:
    attack = attack_named(name)
    if attack.needs_references and references is None:
        return {}
    found = attack.scores(target, references)
    lists = found if isinstance(found, Mapping) else {name: found}
    return {
        title: _checks.scores(f"the scores of {title}", values, size=target.size)
        for title, values in lists.items()
    }
