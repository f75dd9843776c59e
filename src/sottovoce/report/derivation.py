"""Guarantees derived again from their ledgers while the page is made, where that is quick.

A number in run.json is what the run said of itself. The ledger beside it says what was done, so the
two can be held against each other by whoever reads the page.
"""

import math

from sottovoce.errors import SottovoceError
from sottovoce.privacy.accounting import account
from sottovoce.privacy.facts import NoisySum, NoisyVector
from sottovoce.privacy.groups import group_guarantee
from sottovoce.privacy.guarantee import Guarantee, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.report.stage import Stage

# Sampled Gaussian steps of one strength take the accountant about half a second.
_MOST_STRENGTHS = 4
_MOST_ENTRIES = 2000
_MOST_ROUNDS = 50
_TOLERANCE = 1e-6


def derived_again(stage: Stage, guarantee: Guarantee) -> bool | None:
    """Whether the ledger of this unit gives this guarantee; None where nobody tried."""
    ledger = stage.ledgers.get(str(guarantee.unit))
    # A training that protects examples may also say what that is worth to users.
    size = stage.configuration.get("max_examples_per_user") if ledger is None else None
    if size is not None and guarantee.unit is Unit.USER:
        ledger = stage.ledgers.get(str(Unit.EXAMPLE))
    if ledger is None or ledger.relation is not guarantee.relation or not _is_quick(ledger):
        return None
    try:
        if size is None:
            found = ledger.guarantee(guarantee.delta)
        else:
            found = group_guarantee(
                ledger.entries,
                group_size=size,
                relation=ledger.relation,
                delta=guarantee.delta,
            )
    except SottovoceError:
        return False
    if found.holds != guarantee.holds:
        return False
    return not found.holds or math.isclose(
        found.epsilon, guarantee.epsilon, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE
    )


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
