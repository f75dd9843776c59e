"""The users of a synthetic corpus: their activity, and their recurring values (habits).

Activity is Zipf-like: the user of activity rank r speaks with probability proportional to
1 / (r + 1), and ranks are assigned to users in shuffled order. A habit is a number that depends on
the user, the purpose and the rank of the habit, but not on the utterance: the third contact of a
user is the same number, hence the same contact, each time. Habits are drawn from the same lists as
other values, so they change how values recur within a user, but not their overall frequencies.
"""

import numpy as np
import numpy.typing as npt

from sottovoce.corpora.synthetic.draws import (
    GOLDEN,
    Numbers,
    Shares,
    cumulative,
    mix,
    unit,
)

ACTIVITY_SHIFT = 1.0

Users = npt.NDArray[np.int64]


class People:
    """The users of a corpus, in 16 bytes of memory per user."""

    def __init__(self, users: int, key: int) -> None:
        self.key = np.array([key], dtype=np.uint64)
        order = np.arange(users, dtype=np.uint64)
        self.by_rank: Users = np.argsort(mix((order + np.uint64(1)) * GOLDEN + self.key))
        self.activity: Shares = cumulative(1 / (np.arange(1, users + 1) + ACTIVITY_SHIFT))

    def speakers(self, numbers: Numbers) -> Users:
        """One user per number, sampled by activity."""
        ranks = np.searchsorted(self.activity, unit(numbers), side="right")
        chosen: Users = self.by_rank[ranks]
        return chosen

    def habitual(
        self,
        users: Users,
        fresh: Numbers,
        *,
        purpose: Numbers,
        own: npt.NDArray[np.float64] | float,
        recurrence: npt.NDArray[np.float64] | float,
    ) -> Numbers:
        """Replace the fraction `recurrence` of the fresh numbers by one of about `own` habits.

        Low ranks are more frequent: the rank is own * u**2 for uniform u, so that the first of
        nine habits has probability 1/3.
        """
        choice = mix(fresh + self.key)
        fraction = unit(choice << np.uint64(20))
        rank = (fraction * fraction * own).astype(np.uint64)
        person = mix((users.astype(np.uint64) + np.uint64(1)) * GOLDEN ^ self.key)
        habit = mix(mix(person ^ purpose) + rank * GOLDEN)
        return np.where(unit(choice) < recurrence, habit, fresh)
