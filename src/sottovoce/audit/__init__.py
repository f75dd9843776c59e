"""Privacy audit of a trained model.

`attacks` infer membership from scores, `canaries` and `bounds` turn guesses into lower bounds on
epsilon, `exposure` measures the memorisation of planted secrets, and `result` is the audit.json of
a run. All of them use scoring functions only; no framework is imported.
"""

from sottovoce.audit.attacks import (
    Attack,
    ReferenceScores,
    ShadowAttack,
    lira,
    lira_offline,
    loss_attack,
    membership_attacks,
    rmia,
    sorted_features,
    train_references,
)
from sottovoce.audit.auditing import audit_model
from sottovoce.audit.bounds import (
    LowerBound,
    clopper_pearson_bound,
    gaussian_bound,
    one_run_bound,
    one_run_gaussian_bound,
)
from sottovoce.audit.canaries import (
    CanaryPairs,
    DiracCanaries,
    Family,
    GradientCanaries,
    RandomCanaries,
    TextCanaries,
    gradient_scores,
    independent_canaries_audit,
    one_run_audit,
    read_canaries,
    text_canaries,
    write_canaries,
)
from sottovoce.audit.duplicates import Candidates, LeftOut, candidates, words
from sottovoce.audit.exposure import (
    Exposure,
    SecretFormat,
    exact_exposure,
    mean_exposure,
    sampled_exposure,
)
from sottovoce.audit.result import AttackOutcome, AuditResult, measure, measure_all, strongest
from sottovoce.audit.scoring import ScoringFunction, TrainReference

__all__ = [
    "Attack",
    "AttackOutcome",
    "AuditResult",
    "CanaryPairs",
    "Candidates",
    "DiracCanaries",
    "Exposure",
    "Family",
    "GradientCanaries",
    "LeftOut",
    "LowerBound",
    "RandomCanaries",
    "ReferenceScores",
    "ScoringFunction",
    "SecretFormat",
    "ShadowAttack",
    "TextCanaries",
    "TrainReference",
    "audit_model",
    "candidates",
    "clopper_pearson_bound",
    "exact_exposure",
    "gaussian_bound",
    "gradient_scores",
    "independent_canaries_audit",
    "lira",
    "lira_offline",
    "loss_attack",
    "mean_exposure",
    "measure",
    "measure_all",
    "membership_attacks",
    "one_run_audit",
    "one_run_bound",
    "one_run_gaussian_bound",
    "read_canaries",
    "rmia",
    "sampled_exposure",
    "sorted_features",
    "strongest",
    "text_canaries",
    "train_references",
    "words",
    "write_canaries",
]
