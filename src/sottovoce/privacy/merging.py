"""Merging the ledgers of workers that each add a share of the noise to one sum.

A worker knows only its own share: N(0, s_w^2). Independent shares add up in variance, so the sum
carries S^2 = sum_w s_w^2, whatever the workers were told to add. What every worker recorded alike
(a release by the server, say) happened once.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from sottovoce.errors import CannotAccount
from sottovoce.privacy.accounting import Entry
from sottovoce.privacy.facts import Fact, NoisySum
from sottovoce.privacy.ledger import Ledger


def merge_workers(ledgers: Sequence[Ledger]) -> Ledger:
    """One ledger for what all workers released together.

    Steps that a crash kept some workers from recording were never summed, but they are counted all
    the same, as if the missing workers had added the smallest share among those present.
    """
    first = ledgers[0]
    if any((led.unit, led.relation) != (first.unit, first.relation) for led in ledgers):
        raise CannotAccount("Expected the ledgers of all workers to share unit and relation.")
    merged = Ledger(unit=first.unit, relation=first.relation)
    pending = [list(reversed(ledger.entries)) for ledger in ledgers]
    unfinished = 0
    while any(pending):
        present = [runs[-1] for runs in pending if runs]
        count = min(run.count for run in present)
        if len(present) < len(ledgers):
            unfinished += count
        merged.spend(_together([run.fact for run in present], len(ledgers)), count)
        for runs in pending:
            if runs:
                run = runs.pop()
                if run.count > count:
                    runs.append(Entry(run.fact, run.count - count))
    for ledger in ledgers:
        for sentence in ledger.assumptions:
            merged.assume(sentence)
        for sentence in ledger.not_covered:
            merged.leave_uncovered(sentence)
    if unfinished:
        merged.assume(
            f"{unfinished} interrupted steps, recorded by some workers only, are counted as spent"
        )
    merged.budget = first.budget  # Set last: what was spent must be told, even beyond it.
    return merged


def _together(facts: Sequence[Fact], workers: int) -> Fact:
    first = facts[0]
    if not isinstance(first, NoisySum) or first.rank is None:
        if any(fact != first for fact in facts):
            raise CannotAccount("Expected all workers to record the same release, got unlike ones.")
        return first
    shares = [fact for fact in facts if isinstance(fact, NoisySum)]
    ranks = {fact.rank for fact in shares}
    alike = {replace(fact, rank=None, noise_stds=first.noise_stds) for fact in shares}
    if len(shares) < len(facts) or len(alike) > 1 or len(ranks) < len(facts):
        raise CannotAccount(
            "Expected shares of one step from workers of different ranks, got unlike steps."
        )
    if first.workers != workers:
        raise CannotAccount(f"Expected the ledgers of all {first.workers} workers, got {workers}.")
    missing = workers - len(facts)
    stds = tuple(
        math.hypot(*shares_of_layer, *([min(shares_of_layer)] * missing))
        for shares_of_layer in zip(*(fact.noise_stds for fact in shares), strict=True)
    )
    return replace(first, rank=None, noise_stds=stds)
