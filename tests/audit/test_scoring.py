import numpy as np
import pytest

from sottovoce.audit.scoring import log_odds, log_probabilities
from sottovoce.errors import InvalidInput


def test_log_odds_stay_finite_and_ordered() -> None:
    log_p = np.array([-np.inf, -1e5, -50.0, -1.0, -1e-10, -1e-17, 0.0])
    odds = log_odds(log_p)
    assert np.isfinite(odds).all()
    assert (np.diff(odds) >= 0).all()
    assert odds[3] == pytest.approx(np.log(np.exp(-1) / (1 - np.exp(-1))))


def test_a_rounding_above_zero_is_forgiven() -> None:
    assert log_probabilities([1e-8, -1.0]).tolist() == [0.0, -1.0]


@pytest.mark.parametrize(
    ("values", "size", "message"),
    [
        ([0.5], None, "Expected log-probabilities .* of at most 0, got 0.5"),
        ([-1.0, np.nan], None, "Expected the log-probabilities without NaN, got 1 NaN among 2"),
        ([-1.0], 2, "Expected 2 numbers in the log-probabilities, got 1"),
        ([[-1.0]], None, "Expected the log-probabilities as a vector"),
    ],
)
def test_bad_scores(values: object, size: int | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        log_probabilities(values, size)  # type: ignore[arg-type]
