"""Intervals: against drawing utterances one by one, and that they cover the truth."""

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.errors import InvalidInput
from sottovoce.nlu.metrics import Counts, intervals, paired_change
from sottovoce.nlu.metrics.bootstrap import _resampled
from sottovoce.nlu.metrics.scores import NAMES, ratios

TRUTH = 0.3
"""How often the made-up system errs."""


def made_up(utterances: int, rng: np.random.Generator, wrong: float = TRUTH) -> Counts:
    """One slot an utterance; intents are wrong with this probability, slots as often."""
    intents = (rng.random(utterances) >= wrong).astype(np.int64)
    slots = (rng.random(utterances) >= wrong).astype(np.int64)
    ones = np.ones(utterances, dtype=np.int64)
    errors = 2 - intents - slots
    rows = np.stack([ones, errors, 2 * ones, intents, 2 * ones, slots, intents * slots], axis=1)
    return Counts(rows)


def drawn_one_by_one(rows: NDArray[np.int64], resamples: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(1)
    picks = rng.integers(0, len(rows), (resamples, len(rows)))
    return np.asarray(rows[picks].sum(1))


def test_as_drawing_one_by_one() -> None:
    """Mean and deviation of 4000 resamples of each kind: they differ by 8 deviations in no case.

    A false alarm has a probability below 1e-12; a resample of half the size would be seen.
    """
    counts = made_up(200, np.random.default_rng(0))
    ours = ratios(_resampled(counts.rows, 4000, seed=2))
    plain = ratios(drawn_one_by_one(counts.rows, 4000))
    deviation = plain.std(0)
    assert (np.abs(ours.mean(0) - plain.mean(0)) < 8 * deviation * np.sqrt(2 / 4000)).all()
    assert (np.abs(ours.std(0) / deviation - 1) < 8 * np.sqrt(1 / 4000)).all()
    half = ratios(drawn_one_by_one(counts.rows[:100], 4000))
    assert (np.abs(half.std(0) / deviation - 1) > 8 * np.sqrt(1 / 4000)).all()


def covered(factor: float) -> int:
    """In how many of 300 corpora an interval, made wider or narrower, covers the truth."""
    hits = 0
    for seed in range(300):
        counts = made_up(300, np.random.default_rng(seed))
        found = intervals(counts, confidence=0.9, resamples=400)["ser"]
        middle, half = sum(found) / 2, factor * (found.high - found.low) / 2
        hits += abs(middle - TRUTH) <= half
    return hits


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (0.7, False), (1.3, False)])
def test_nine_in_ten_cover_the_truth(factor: float, right: bool) -> None:
    """270 of 300 are expected, give or take 5.2; corpora are seeded, so this is no gamble.

    With 0.7 of the width 225 are expected, with 1.3 of it 290.
    """
    assert (255 <= covered(factor) <= 284) == right


def test_seeds() -> None:
    counts = made_up(50, np.random.default_rng(0))
    assert intervals(counts, seed=3) == intervals(counts, seed=3)
    assert intervals(counts, seed=3) != intervals(counts, seed=4)
    assert set(intervals(counts, seed=None)) == set(NAMES)


def test_wider_for_more_confidence_and_around_the_score() -> None:
    counts = made_up(80, np.random.default_rng(0))
    scores = counts.scores().to_json()
    for name, narrow in intervals(counts, confidence=0.5).items():
        wide = intervals(counts, confidence=0.99)[name]
        assert wide.low < narrow.low <= scores[name] <= narrow.high < wide.high


def test_pairs_are_told_apart_where_intervals_overlap() -> None:
    """Few errors are the baseline's alone: on the same utterances that is certain."""
    rng = np.random.default_rng(0)
    baseline = made_up(400, rng)
    rows = baseline.rows.copy()
    mended = np.flatnonzero(rows[:, 1] > 0)[:20]
    rows[mended] = [1, 0, 2, 1, 2, 1, 1]
    better = Counts(rows)
    change = paired_change(better, baseline)["ser"]
    assert change.difference == pytest.approx(better.scores().ser - baseline.scores().ser)
    assert change.interval.high < 0
    assert change.relative == pytest.approx(change.difference / baseline.scores().ser)
    assert intervals(better)["ser"].high > intervals(baseline)["ser"].low
    same = paired_change(baseline, baseline)["ser"]
    assert (same.difference, same.interval.low, same.interval.high) == (0.0, 0.0, 0.0)


def test_bad_arguments() -> None:
    counts = made_up(5, np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="confidence between 0 and 1, got 95"):
        intervals(counts, confidence=95)
    with pytest.raises(InvalidInput, match="utterances to draw from"):
        intervals(Counts(counts.rows[:0]))
    with pytest.raises(InvalidInput, match="baseline on the same 5 utterances, got 4"):
        paired_change(counts, Counts(counts.rows[:4]))
