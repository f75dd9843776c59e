"""Run all attacks whose inputs are available, and report which were skipped."""

from collections.abc import Callable, Collection
from pathlib import Path

from numpy.typing import ArrayLike

from sottovoce.audit.attacks import train_references
from sottovoce.audit.attacks.membership import (
    ATTACKS,
    Attack,
    attack_named,
    membership_attacks,
)
from sottovoce.audit.attacks.shadow import NAME as SHADOW
from sottovoce.audit.canaries import CanaryPairs, TextCanaries, one_run_audit
from sottovoce.audit.duplicates import Candidates
from sottovoce.audit.result import AuditResult
from sottovoce.audit.scoring import ScoringFunction, TrainReference
from sottovoce.corpora import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.noise import NoiseSource


def audit_model(
    score: ScoringFunction[Utterance],
    tried: Candidates[Utterance],
    *,
    attacks: Collection[str] | None = None,
    train: TrainReference[Utterance] | None = None,
    models: int = 4,
    folder: Path | str | None = None,
    shadow: ScoringFunction[Utterance] | None = None,
    canaries: TextCanaries | CanaryPairs | None = None,
    guesses: int | None = None,
    guarantee: Guarantee | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    source: NoiseSource | None = None,
    progress: Callable[[int], None] | None = None,
) -> AuditResult:
    """Audit a trained model by its scores; `attacks=None` runs all that can run.

    Registered attacks are included (see `attacks.membership.ATTACKS`).

    LiRA and RMIA need `train`, which trains a reference model (`models` of them, saved in
    `folder`, counted by `progress`); the shadow attack needs `shadow`, the membership scores of an
    attack model trained on a shadow model; the one-run audit needs the `canaries` that were in the
    training data. Its delta defaults to that of the guarantee, its number of guesses to a tenth of
    the canaries; any other number must be fixed in advance.

    >>> records = [Utterance(tokens=(word,), slots=("O",)) for word in "abcdef"]
    >>> tried = Candidates(members=tuple(records[:3]), non_members=tuple(records[3:]))
    >>> result = audit_model(lambda records: [-ord(r.text) / 100 for r in records], tried)
    >>> result.strongest.attack, result.strongest.auc
    ('loss threshold', 1.0)
    >>> result.notes[0]
    'shadow did not run: no shadow model was given'
    """
    source = source or NoiseSource()
    own = [str(attack) for attack in Attack]
    asked = ATTACKS.names(installed=False) if attacks is None else map(str, attacks)
    known = list(dict.fromkeys([*own, *asked]))
    for name in known[len(own) :]:
        ATTACKS.require(name)
    referring = {name for name in known if name in ATTACKS and attack_named(name).needs_references}
    lacking = {
        str(Attack.SHADOW): "no shadow model was given" if shadow is None else "",
        **dict.fromkeys(
            (name for name in known if name in referring),
            "no way to train reference models was given" if train is None else "",
        ),
        str(Attack.ONE_RUN): "no canaries were in the training data" if canaries is None else "",
    }
    wanted = [attack for attack in known if attacks is None or attack in attacks]
    missing = {attack: lacking[attack] for attack in wanted if lacking.get(attack)}
    if attacks is not None and missing:
        attack, reason = next(iter(missing.items()))
        raise InvalidInput(f"Expected the inputs of the attack {attack}, but {reason}.")
    ran = [attack for attack in wanted if attack not in missing]
    references = None
    if train is not None and referring & set(ran):
        pool = [*tried.members, *tried.non_members]
        references = train_references(
            pool, train, models=models, source=source, folder=folder, progress=progress
        )
    others: dict[str, tuple[ArrayLike, ArrayLike]] = {}
    if shadow is not None and Attack.SHADOW in ran:
        others[SHADOW] = (shadow(tried.members), shadow(tried.non_members))
    outcomes = membership_attacks(
        score,
        tried.members,
        tried.non_members,
        references=references,
        attacks=ran,
        others=others,
        confidence=confidence,
    )
    bounds = []
    if canaries is not None and Attack.ONE_RUN in ran:
        bounds.append(
            one_run_audit(
                canaries.scores(score),
                canaries.included,
                delta=_delta(delta, guarantee),
                confidence=confidence,
                guesses=guesses,
                relation=canaries.relation,
                source=source,
            )
        )
    return AuditResult(
        attacks=tuple(outcomes),
        bounds=tuple(bounds),
        left_out=tried.left_out,
        guarantee=guarantee,
        notes=tuple(f"{attack} did not run: {reason}" for attack, reason in missing.items()),
    )


def _delta(delta: float | None, guarantee: Guarantee | None) -> float:
    if delta is not None:
        return delta
    if guarantee is None:
        raise InvalidInput("Expected a delta or a guarantee for the one-run audit, got neither.")
    return guarantee.delta
