import numpy as np
import pytest

from sottovoce.audit.bounds import clopper_pearson_bound, gaussian_bound
from sottovoce.audit.canaries import Family, independent_canaries_audit
from sottovoce.errors import InvalidInput

SCORES = [0.1, 0.6, 0.9, 0.4, 0.5]
INCLUDED = np.array([False, True, True, True, False])


def test_scores_above_the_threshold_are_counted() -> None:
    counts = {"true_positives": 2, "members": 3, "false_positives": 0, "non_members": 2}
    for family, bound in ((Family.ANY, clopper_pearson_bound), (Family.GAUSSIAN, gaussian_bound)):
        found = independent_canaries_audit(
            SCORES, INCLUDED, threshold=0.5, delta=1e-5, confidence=0.6, family=family
        )
        assert found == bound(**counts, delta=1e-5, confidence=0.6)


def test_unlike_canaries_do_not_break_the_bound() -> None:
    """Half of the canaries leak (mu = 2) and half do not; at 95 %, 2 of 40 audits may exceed 2.

    The truth for the worst canary is mu = 2, so a mixture must stay below it every time.
    """
    rng = np.random.default_rng(1)
    for _ in range(40):
        included = rng.random(2000) < 0.5
        scores = np.where(np.arange(2000) < 1000, 2.0, 0.0) * (included - 0.5)
        found = independent_canaries_audit(
            scores + rng.normal(size=2000), included, threshold=0.0, delta=1e-5,
            family=Family.GAUSSIAN,
        )  # fmt: skip
        assert found.mu is not None
        assert 0.5 < found.mu < 2


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="Expected a threshold, got NaN"):
        independent_canaries_audit(SCORES, INCLUDED, threshold=np.nan, delta=0.0)
    with pytest.raises(InvalidInput, match="Expected included as booleans of shape"):
        independent_canaries_audit(SCORES, INCLUDED[:2], threshold=0.5, delta=0.0)
    with pytest.raises(InvalidInput, match="Expected non-members >= 1, got 0"):
        independent_canaries_audit([1.0], np.array([True]), threshold=0.5, delta=0.0)
