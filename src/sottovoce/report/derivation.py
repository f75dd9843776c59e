"""Guarantees derived again from their ledgers while the page is made, where that is quick.

A number in run.json is what the run said of itself, or what somebody wrote there since. The ledger
beside it says what was done. The page never shows a better guarantee than the ledger gives, and
none for a run that keeps a ledger and has lost it.
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

# Sampled Gaussian steps of one strength take the accountant about half a second.
_MOST_STRENGTHS = 4
_MOST_ENTRIES = 2000
_MOST_ROUNDS = 50
_TOLERANCE = 1e-6
_KEEP_LEDGERS = ("deid", "federate", "train")


def settled(stage: Stage) -> Stage:
    """The stage with the guarantees that its ledgers give where those are worse."""
    return replace(stage, stated=tuple(_settled(stage, each) for each in stage.stated))


def _settled(stage: Stage, stated: Stated) -> Stated:
    said = stated.guarantee
    ledger = stage.ledgers.get(str(said.unit))
    # A training that protects examples may also say what that is worth to users.
    size = stage.configuration.get("max_examples_per_user") if ledger is None else None
    if size is not None and said.unit is Unit.USER:
        ledger = stage.ledgers.get(str(Unit.EXAMPLE))
    if ledger is None:
        if stage.verb in _KEEP_LEDGERS and said.holds:
            return _refused(stated, "the ledger that the guarantee would follow from is not there")
        return stated
    if ledger.relation is not said.relation:
        return _refused(stated, "the ledger is about other neighbours than the guarantee")
    if not _is_quick(ledger):
        least = _at_least(ledger, said.delta)
        if said.holds and least > said.epsilon * (1 + _TOLERANCE):
            return _refused(stated, f"a part of the ledger alone gives epsilon {rounded_up(least)}")
        return stated
    try:
        found = _derived(ledger, said.delta, size)
    except SottovoceError as problem:
        return _refused(stated, f"the ledger gives no guarantee ({problem})")
    if found.holds != said.holds or (found.holds and not _close(found.epsilon, said.epsilon)):
        worse = not found.holds or found.epsilon > said.epsilon
        return replace(stated, guarantee=found if said.holds and worse else said, checked=False)
    return replace(stated, checked=True)


def _derived(ledger: Ledger, delta: float, group_size: int | None) -> Guarantee:
    if group_size is None:
        return ledger.guarantee(delta)
    return group_guarantee(
        ledger.entries, group_size=group_size, relation=ledger.relation, delta=delta
    )


def _at_least(ledger: Ledger, delta: float) -> float:
    """The epsilon of the largest entries of a long ledger: all of it together gives no less."""
    largest = sorted(ledger.entries, key=lambda entry: -entry.count)[:_MOST_STRENGTHS]
    try:
        found = account(largest, unit=ledger.unit, relation=ledger.relation, delta=delta)
    except SottovoceError:
        return 0.0
    return found.epsilon


def _refused(stated: Stated, reason: str) -> Stated:
    none = replace(
        stated.guarantee, epsilon=math.inf, verdict=Verdict.NO_GUARANTEE, reasons=(reason,)
    )
    return replace(stated, guarantee=none, checked=False)


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def epsilon_by_round(stage: Stage) -> list[tuple[float, float]]:
    """What had been spent after every release of noisy counts; empty where it says nothing."""
    if stage.main is None or not stage.main.guarantee.holds:
        return []
    ledger = stage.ledgers.get(str(stage.main.guarantee.unit))
    if ledger is None or not all(isinstance(each.fact, NoisyVector) for each in ledger.entries):
        return []
    facts = [each.fact for each in ledger.entries for _ in range(min(each.count, _MOST_ROUNDS + 1))]
    delta = stage.main.guarantee.delta
    if not 1 < len(facts) <= _MOST_ROUNDS:
        return []
    whole = Ledger(unit=ledger.unit, relation=ledger.relation)
    points = []
    for place, fact in enumerate(facts, 1):
        whole.spend(fact)
        found = account(whole.entries, unit=ledger.unit, relation=ledger.relation, delta=delta)
        points.append((float(place), found.epsilon))
    return points


def _is_quick(ledger: Ledger) -> bool:
    strengths = sum(isinstance(entry.fact, NoisySum) for entry in ledger.entries)
    return strengths <= _MOST_STRENGTHS and len(ledger.entries) <= _MOST_ENTRIES
