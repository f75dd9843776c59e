"""Re-derive guarantees from their ledgers when the page is made, if that is fast.

A number in run.json may have been edited; the ledger records what was executed. The page never
shows a better guarantee than the ledger implies, and none if a run's ledger is missing.
"""

import math
from dataclasses import replace

from sottovoce.errors import SottovoceError
from sottovoce.privacy.accounting import account
from sottovoce.privacy.facts import NoisySum, NoisyVector
from sottovoce.privacy.groups import group_guarantee
from sottovoce.privacy.guarantee import Guarantee, Unit, Verdict, rounded_up
from sottovoce.privacy.ledger import Ledger
from sottovoce.report.stage import Stage, Stated

# Accounting takes about half a second for each noise level of sampled Gaussian steps.
_MAX_NOISE_LEVELS = 4
_MAX_ENTRIES = 2000
_MAX_ROUNDS = 50
_TOLERANCE = 1e-6
_KEEP_LEDGERS = ("deid", "federate", "train")


def verified(stage: Stage) -> Stage:
    """The stage, with guarantees replaced by those of its ledgers where those are worse."""
    return replace(stage, stated=tuple(_verified(stage, each) for each in stage.stated))


def _verified(stage: Stage, stated: Stated) -> Stated:
    claimed = stated.guarantee
    ledger = stage.ledgers.get(str(claimed.unit))
    # A training that protects examples may also state a guarantee for users.
    size = stage.configuration.get("max_examples_per_user") if ledger is None else None
    if size is not None and claimed.unit is Unit.USER:
        ledger = stage.ledgers.get(str(Unit.EXAMPLE))
    if ledger is None:
        if stage.verb in _KEEP_LEDGERS and claimed.holds:
            return _rejected(stated, "the ledger of the guarantee is missing")
        return stated
    if ledger.relation is not claimed.relation:
        return _rejected(stated, "the ledger has another neighbouring relation than the guarantee")
    if not _is_quick(ledger):
        least = _at_least(ledger, claimed.delta)
        if claimed.holds and least > claimed.epsilon * (1 + _TOLERANCE):
            return _rejected(
                stated, f"a part of the ledger alone gives epsilon {rounded_up(least)}"
            )
        return stated
    try:
        found = _derived(ledger, claimed.delta, size)
    except SottovoceError as problem:
        return _rejected(stated, f"the ledger implies no guarantee ({problem})")
    if found.holds != claimed.holds or (found.holds and not _close(found.epsilon, claimed.epsilon)):
        worse = not found.holds or found.epsilon > claimed.epsilon
        return replace(
            stated, guarantee=found if claimed.holds and worse else claimed, checked=False
        )
    return replace(stated, checked=True)


def _derived(ledger: Ledger, delta: float, group_size: int | None) -> Guarantee:
    if group_size is None:
        return ledger.guarantee(delta)
    return group_guarantee(
        ledger.entries, group_size=group_size, relation=ledger.relation, delta=delta
    )


def _at_least(ledger: Ledger, delta: float) -> float:
    """The epsilon of the most frequent entries of a long ledger, a lower bound for all of it."""
    largest = sorted(ledger.entries, key=lambda entry: -entry.count)[:_MAX_NOISE_LEVELS]
    try:
        found = account(largest, unit=ledger.unit, relation=ledger.relation, delta=delta)
    except SottovoceError:
        return 0.0
    return found.epsilon


def _rejected(stated: Stated, reason: str) -> Stated:
    none = replace(
        stated.guarantee, epsilon=math.inf, verdict=Verdict.NO_GUARANTEE, reasons=(reason,)
    )
    return replace(stated, guarantee=none, checked=False)


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def epsilon_by_round(stage: Stage) -> list[tuple[float, float]]:
    """Epsilon spent after every release of noisy counts; empty if it does not apply."""
    if stage.main is None or not stage.main.guarantee.holds:
        return []
    ledger = stage.ledgers.get(str(stage.main.guarantee.unit))
    if ledger is None or not all(isinstance(each.fact, NoisyVector) for each in ledger.entries):
        return []
    facts = [each.fact for each in ledger.entries for _ in range(min(each.count, _MAX_ROUNDS + 1))]
    delta = stage.main.guarantee.delta
    if not 1 < len(facts) <= _MAX_ROUNDS:
        return []
    whole = Ledger(unit=ledger.unit, relation=ledger.relation)
    points = []
    for place, fact in enumerate(facts, 1):
        whole.spend(fact)
        found = account(whole.entries, unit=ledger.unit, relation=ledger.relation, delta=delta)
        points.append((float(place), found.epsilon))
    return points


def _is_quick(ledger: Ledger) -> bool:
    noise_levels = sum(isinstance(entry.fact, NoisySum) for entry in ledger.entries)
    return noise_levels <= _MAX_NOISE_LEVELS and len(ledger.entries) <= _MAX_ENTRIES
