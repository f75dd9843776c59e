"""Merging the shares of workers: the actual noise of the sum."""

import math
from dataclasses import replace

import pytest

from sottovoce.errors import CannotAccount
from sottovoce.privacy.facts import BoundedRelease, Contribution, NoisySum
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.ledgers.merging import merge_workers

WORKERS = 8
SHARE = NoisySum(
    unit=Unit.EXAMPLE,
    clip_norm=1.0,
    noise_stds=(1.0 / WORKERS,),  # y/N, as the paper prints it
    sampling_rate=0.007,
    contribution=Contribution.MIXED,
    workers=WORKERS,
    rank=0,
)


def worker(rank: int, steps: int, std: float = 1.0 / WORKERS) -> Ledger:
    ledger = Ledger(unit=Unit.EXAMPLE, relation=Relation.ADD_OR_REMOVE)
    if steps:
        ledger.spend(replace(SHARE, rank=rank, noise_stds=(std,)), steps)
    return ledger


def test_the_papers_split_has_the_noise_of_one_worker_over_root_n() -> None:
    merged = merge_workers([worker(rank, 140) for rank in range(WORKERS)])
    ((fact, count),) = [(entry.fact, entry.count) for entry in merged.entries]
    assert isinstance(fact, NoisySum)
    assert count == 140
    assert fact.noise_stds[0] == pytest.approx(1 / math.sqrt(WORKERS))
    assert fact.noise_multiplier(Relation.ADD_OR_REMOVE) == pytest.approx(0.17677669529663687)


def test_a_worker_that_adds_no_noise_shows() -> None:
    ledgers = [worker(rank, 10) for rank in range(WORKERS - 1)] + [worker(WORKERS - 1, 10, 0.0)]
    (entry,) = merge_workers(ledgers).entries
    assert isinstance(entry.fact, NoisySum)
    assert entry.fact.noise_stds[0] == pytest.approx(math.sqrt(WORKERS - 1) / WORKERS)


def test_a_share_alone_gets_no_guarantee() -> None:
    assert "merge" in worker(0, 1).guarantee(1e-5).reasons[0]


def test_steps_that_a_crash_kept_some_from_recording_are_counted() -> None:
    ledgers = [worker(rank, 10 if rank else 11) for rank in range(WORKERS)]
    merged = merge_workers(ledgers)
    assert sum(entry.count for entry in merged.entries) == 11
    assert len(merged.entries) == 1  # at the noise they would have had
    assert any("1 interrupted steps" in sentence for sentence in merged.assumptions)


def test_what_all_recorded_alike_happened_once() -> None:
    release = BoundedRelease(unit=Unit.EXAMPLE, mechanism="scales", epsilon=0.1)
    ledgers = [worker(rank, 2) for rank in range(WORKERS)]
    for ledger in ledgers:
        ledger.spend(release)
        ledger.leave_uncovered("the vocabulary")
    merged = merge_workers(ledgers)
    assert [entry.count for entry in merged.entries] == [2, 1]
    assert merged.not_covered == ("the vocabulary",)


@pytest.mark.parametrize(
    "ledgers",
    [
        [worker(0, 1), worker(1, 1)],  # not all workers
        [worker(0, 1) for _ in range(WORKERS)],  # one rank twice
    ],
)
def test_incomplete_sets_are_refused(ledgers: list[Ledger]) -> None:
    with pytest.raises(CannotAccount, match="Expected"):
        merge_workers(ledgers)


def test_unlike_steps_are_refused() -> None:
    ledgers = [worker(rank, 1) for rank in range(WORKERS - 1)]
    odd = Ledger(unit=Unit.EXAMPLE, relation=Relation.ADD_OR_REMOVE)
    odd.spend(replace(SHARE, rank=WORKERS - 1, clip_norm=2.0))
    with pytest.raises(CannotAccount, match="different steps"):
        merge_workers([*ledgers, odd])
    other = Ledger(unit=Unit.USER, relation=Relation.ADD_OR_REMOVE)
    with pytest.raises(CannotAccount, match="same unit and relation"):
        merge_workers([*ledgers, other])
