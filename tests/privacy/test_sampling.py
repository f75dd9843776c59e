"""Sampling: independent, stable under adding a record, equal on every rank."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sottovoce.errors import InvalidInput
from sottovoce.privacy.sampling import Membership, SamplingKey, group_by, shuffled_batches

KEY = SamplingKey.from_seed(7)
IDS = [f"record {i}" for i in range(20_000)]


def test_poisson_batches_have_the_stated_rate_and_independent_members() -> None:
    members, rate, steps = Membership(IDS, KEY), 0.01, 200
    sizes = np.array([len(members.poisson(step, rate)) for step in range(steps)])
    # The size of a Poisson batch is binomial: test its mean and its variance (twins below).
    assert abs(sizes.mean() - rate * len(IDS)) < 4 * np.sqrt(rate * len(IDS) / steps)
    assert stats.binomtest(int(sizes.sum()), steps * len(IDS), rate).pvalue > 1e-6
    assert 0.7 < sizes.var() / (rate * (1 - rate) * len(IDS)) < 1.4


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_wrong_rate_would_be_seen(factor: float) -> None:
    members, rate, steps = Membership(IDS, KEY), 0.01, 200
    total = sum(len(members.poisson(step, factor * rate)) for step in range(steps))
    assert stats.binomtest(total, steps * len(IDS), rate).pvalue < 1e-6


def test_fixed_size_batches_would_be_seen() -> None:
    """A sampler of fixed size q n has the right mean but the wrong privacy."""
    sizes = np.full(200, 200)
    assert not 0.7 < sizes.var() / (0.01 * 0.99 * len(IDS)) < 1.4


def test_steps_and_pairs_are_independent() -> None:
    members = Membership(IDS[:2000], KEY)
    chosen = np.zeros((400, 2000), dtype=bool)
    for step in range(400):
        chosen[step, members.poisson(step, 0.5)] = True
    correlations = np.corrcoef(chosen[:, :60].astype(float), rowvar=False)
    off_diagonal = correlations[~np.eye(60, dtype=bool)]
    assert np.abs(off_diagonal).max() < 5.5 / np.sqrt(400)
    assert abs(np.corrcoef(chosen[0], chosen[1])[0, 1]) < 5 / np.sqrt(2000)


@given(st.lists(st.text(max_size=5), unique=True, min_size=1, max_size=30), st.text(min_size=6))
def test_adding_a_record_moves_no_other(ids: list[str], added: str) -> None:
    smaller, larger = Membership(ids, KEY), Membership([added, *ids], KEY)
    for step in range(3):
        without = set(smaller.poisson(step, 0.5))
        with_it = {i - 1 for i in larger.poisson(step, 0.5)} - {-1}
        assert without == with_it
        assert smaller.workers(3, step).tolist() == larger.workers(3, step)[1:].tolist()


def test_why_positions_would_not_do() -> None:
    """Assignment by position moves nearly all records when one is added at the front."""
    dealt = np.arange(100) % 4
    dealt_with_one_more = np.arange(101) % 4
    assert (dealt != dealt_with_one_more[1:]).all()


def test_workers_are_uniform() -> None:
    counts = np.bincount(Membership(IDS, KEY).workers(7), minlength=7)
    assert stats.chisquare(counts).pvalue > 1e-6
    assert len(counts) == 7


def test_every_rank_computes_the_same_without_a_word() -> None:
    code = (
        "from sottovoce.privacy.sampling import Membership, SamplingKey\n"
        "m = Membership([str(i) for i in range(1000)], SamplingKey.from_seed(3))\n"
        "print(m.poisson(5, 0.1).tolist(), m.workers(4).tolist())"
    )
    first, second = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for _ in range(2)
    )
    assert first == second


def test_keys_differ_unless_seeded() -> None:
    assert SamplingKey().secret != SamplingKey().secret
    assert not SamplingKey().seeded
    assert KEY.seeded
    assert "secret" not in repr(SamplingKey())


@pytest.mark.parametrize(("size", "batch"), [(10, 3), (9, 3), (1, 5), (100_000, 128)])
def test_a_shuffled_epoch_has_every_place_once(size: int, batch: int) -> None:
    batches = list(shuffled_batches(size, batch, epoch=2, key=KEY))
    assert sorted(np.concatenate(batches)) == list(range(size))
    assert all(len(b) == batch for b in batches[:-1])


def test_epochs_are_shuffled_anew() -> None:
    first, second = (np.concatenate(list(shuffled_batches(100, 10, e, KEY))) for e in (0, 1))
    assert first.tolist() != second.tolist()


def test_all_or_nobody() -> None:
    members = Membership(["a", "b"], KEY)
    assert members.poisson(0, 1.0).tolist() == [0, 1]
    assert len(Membership([], KEY).poisson(0, 0.5)) == 0
    assert len(members) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Membership(["a", "a"], KEY), "Expected distinct ids"),
        (lambda: Membership(["a"], KEY).poisson(0, 0.0), "Expected rate in"),
        (lambda: Membership(["a"], KEY).poisson(-1, 0.5), "Expected a step from 0"),
        (lambda: Membership(["a"], KEY).workers(0), "Expected count >= 1"),
        (lambda: shuffled_batches(0, 3, 0, KEY), "Expected size >= 1"),
        (lambda: shuffled_batches(3, 0, 0, KEY), "Expected batch >= 1"),
    ],
)
def test_bad_arguments(call: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()  # type: ignore[operator]


def test_grouping_by_user() -> None:
    users, places = group_by(["u2", "u1", "u2"])
    assert users == ["u2", "u1"]
    assert [place.tolist() for place in places] == [[0, 2], [1]]
