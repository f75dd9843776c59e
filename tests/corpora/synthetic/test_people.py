"""Statistical checks: the tolerances are four standard deviations of the share that is measured."""

import math

import numpy as np
import pytest

from sottovoce.corpora.synthetic.draws import GOLDEN, Numbers, mix
from sottovoce.corpora.synthetic.stream import People

DRAWS = 40_000
FRESH: Numbers = mix(np.arange(1, DRAWS + 1, dtype=np.uint64) * GOLDEN)
PURPOSE: Numbers = np.array([7], dtype=np.uint64)


def tolerance(share: float) -> float:
    return 4 * math.sqrt(share * (1 - share) / DRAWS)


def share_of_most_active(speakers: list[int], users: int) -> float:
    counts = np.sort(np.bincount(speakers, minlength=users))[::-1]
    return float(counts[: users // 10].sum() / counts.sum())


def test_activity_follows_its_weights() -> None:
    users = 200
    people = People(users, key=1)
    weights = [1 / (rank + 1) for rank in range(1, users + 1)]
    expected = sum(weights[: users // 10]) / sum(weights)
    share = share_of_most_active(people.speakers(FRESH).tolist(), users)
    assert abs(share - expected) < tolerance(expected)
    even = (FRESH % np.uint64(users)).tolist()
    assert abs(share_of_most_active(even, users) - expected) > tolerance(expected)


def test_activity_has_nothing_to_do_with_user_numbers() -> None:
    people = People(1000, key=1)
    assert sorted(people.by_rank.tolist()) == list(range(1000))
    assert abs(np.corrcoef(people.by_rank, np.arange(1000))[0, 1]) < 4 / math.sqrt(1000)


@pytest.mark.parametrize("recurrence", [0.0, 0.3, 0.7, 1.0])
def test_a_share_of_the_numbers_are_habits(recurrence: float) -> None:
    people = People(10, key=3)
    users = people.speakers(FRESH)
    numbers = people.habitual(users, FRESH, purpose=PURPOSE, own=5, recurrence=recurrence)
    share = float(np.mean(numbers != FRESH))
    assert abs(share - recurrence) <= tolerance(recurrence)
    if 0 < recurrence < 1:
        assert abs(0.7 * share - recurrence) > tolerance(recurrence)


def test_habits_belong_to_one_user_and_one_purpose() -> None:
    people = People(2, key=3)
    numbers = [
        set(
            people.habitual(
                np.full(DRAWS, user),
                FRESH,
                purpose=np.array([purpose], dtype=np.uint64),
                own=5,
                recurrence=1.0,
            ).tolist()
        )
        for user in (0, 1)
        for purpose in (7, 8)
    ]
    assert [len(own) for own in numbers] == [5] * 4
    assert len(set().union(*numbers)) == 20


def test_the_first_of_nine_habits_makes_a_third() -> None:
    people = People(1, key=3)
    users = np.zeros(DRAWS, dtype=np.int64)
    numbers = people.habitual(users, FRESH, purpose=PURPOSE, own=9, recurrence=1.0)
    _, counts = np.unique(numbers, return_counts=True)
    assert abs(counts.max() / DRAWS - 1 / 3) < tolerance(1 / 3)
