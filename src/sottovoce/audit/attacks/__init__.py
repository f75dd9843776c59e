"""Membership inference attacks on scores; higher attack scores mean more likely a member."""

from sottovoce.audit.attacks.membership import (
    ATTACKS,
    Attack,
    MembershipAttack,
    membership_attacks,
)
from sottovoce.audit.attacks.score_attacks import (
    ReferenceScores,
    lira,
    lira_offline,
    loss_attack,
    rmia,
    train_references,
)
from sottovoce.audit.attacks.shadow import ShadowAttack, sorted_features

__all__ = [
    "ATTACKS",
    "Attack",
    "MembershipAttack",
    "ReferenceScores",
    "ShadowAttack",
    "lira",
    "lira_offline",
    "loss_attack",
    "membership_attacks",
    "rmia",
    "sorted_features",
    "train_references",
]
