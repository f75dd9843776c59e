"""Derive every guarantee of a run again from its ledger.

A number in run.json may have been edited; the ledger records what was executed. The page shows what
the ledger gives: its epsilon, its assumptions and its gaps. It refuses a run without its ledger.
"""

import math
from dataclasses import replace

from sottovoce.errors import SottovoceError
from sottovoce.privacy.accounting import account
from sottovoce.privacy.facts import NoisyVector
from sottovoce.privacy.groups import group_guarantee
from sottovoce.privacy.guarantee import Guarantee, Unit, Verdict, rounded_up
from sottovoce.privacy.ledger import Ledger
from sottovoce.report.evidence import Doubt, Kind
from sottovoce.report.stage import Stage, Stated

_MAX_ROUNDS = 50
_TOLERANCE = 1e-6
_KEEP_LEDGERS = ("deid", "federate", "train")
# Whether this assumption is stated depends on whether the population was declared.
_POPULATION = "so that delta is at most 0.1 divided by their number"


def verified(stage: Stage) -> Stage:
    """The stage, with guarantees replaced by those of its ledgers, and every difference named."""
    checked = [_verified(stage, each) for each in stage.stated]
    doubts = tuple(doubt for _, found in checked for doubt in found)
    return replace(
        stage, stated=tuple(each for each, _ in checked), doubts=(*stage.doubts, *doubts)
    )


def _verified(stage: Stage, stated: Stated) -> tuple[Stated, list[Doubt]]:
    claimed = stated.guarantee
    ledger = stage.ledgers.get(str(claimed.unit))
    # A training that protects examples may also state a guarantee for users.
    size = stage.group_size if ledger is None else None
    if size is not None and claimed.unit is Unit.USER:
        ledger = stage.ledgers.get(str(Unit.EXAMPLE))
    if ledger is None:
        if stage.verb not in _KEEP_LEDGERS or not claimed.holds:
            return stated, []
        return _rejected(stated, Kind.NO_LEDGER, "the ledger of the guarantee is missing")
    if ledger.relation is not claimed.relation:
        return _rejected(
            stated, Kind.LEDGER, "the ledger has another neighbouring relation than the guarantee"
        )
    try:
        found = _derived(ledger, claimed.delta, size)
    except SottovoceError as problem:
        return _rejected(stated, Kind.LEDGER, f"the ledger implies no guarantee ({problem})")
    doubts = _differences(claimed, found)
    shown = replace(
        found,
        assumptions=_both(_told(found.assumptions), claimed.assumptions),
        not_covered=_both(found.not_covered, claimed.not_covered),
    )
    if claimed.holds and found.holds:
        shown = replace(shown, epsilon=max(found.epsilon, claimed.epsilon))
    elif not claimed.holds:
        shown = claimed
    return replace(stated, guarantee=shown, checked=not doubts), doubts


def _differences(claimed: Guarantee, found: Guarantee) -> list[Doubt]:
    one = f"The guarantee to one {claimed.unit} in run.json"
    doubts = []
    if claimed.holds != found.holds or (found.holds and not _close(found.epsilon, claimed.epsilon)):
        says = f"epsilon {rounded_up(claimed.epsilon)}" if claimed.holds else "no guarantee"
        gives = f"epsilon {rounded_up(found.epsilon)}" if found.holds else "no guarantee"
        doubts.append(Doubt(Kind.EPSILON, f"{one} says {says}, its ledger gives {gives}."))
    if claimed.holds and (gone := _missing(_told(found.assumptions), claimed.assumptions)):
        doubts.append(Doubt(Kind.ASSUMPTIONS, f"{one} lacks an assumption of its ledger: {gone}."))
    if gone := _missing(found.not_covered, claimed.not_covered):
        doubts.append(Doubt(Kind.GAPS, f"{one} hides what its ledger does not cover: {gone}."))
    return doubts


def _derived(ledger: Ledger, delta: float, group_size: int | None) -> Guarantee:
    if group_size is None:
        return ledger.guarantee(delta)
    return group_guarantee(
        ledger.entries,
        group_size=group_size,
        relation=ledger.relation,
        delta=delta,
        assumptions=ledger.assumptions,
        not_covered=ledger.not_covered,
    )


def _told(assumptions: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each for each in assumptions if not each.endswith(_POPULATION))


def _missing(wanted: tuple[str, ...], stated: tuple[str, ...]) -> str:
    return "; ".join(each for each in wanted if each not in stated)


def _both(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _rejected(stated: Stated, kind: Kind, reason: str) -> tuple[Stated, list[Doubt]]:
    none = replace(
        stated.guarantee, epsilon=math.inf, verdict=Verdict.NO_GUARANTEE, reasons=(reason,)
    )
    sentence = f"The guarantee to one {none.unit}: {reason}."
    return replace(stated, guarantee=none, checked=False), [Doubt(kind, sentence)]


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
