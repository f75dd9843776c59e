import math

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.statistical.distributions import laplace, objections

from sottovoce.deid.replace import PrivateHistogram
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import SurrogateSource
from sottovoce.privacy.noise import NoiseSource


def histogram(
    counts: dict[str, int], epsilon: float = 1.0, delta: float = 1e-6
) -> PrivateHistogram:
    made = PrivateHistogram(epsilon=epsilon, delta=delta)
    user = 0
    for value, count in counts.items():
        for _ in range(count):
            made.add(f"u{user}", value)
            user += 1
    return made


def noise_of(epsilon: float, count: int = 20_000) -> NDArray[np.float64]:
    """The noise on many equal counts."""
    values = {f"v{place}": 60 for place in range(count // 60)}
    drawn: list[float] = []
    for seed in range(40):
        released = histogram(values, epsilon).release(NoiseSource.seeded(seed), "LOC")
        drawn += [weight - 60 for weight in released.weights]
    return np.array(drawn)


def test_counts_carry_laplace_noise_of_the_right_scale() -> None:
    noise = noise_of(1.0)
    assert not objections(noise, laplace(1.0))
    for factor in (0.7, 1.3):
        assert objections(noise, laplace(factor))


def test_one_value_a_user() -> None:
    made = PrivateHistogram(epsilon=5.0, delta=1e-3)
    for number in range(100):
        made.add(f"u{number}", "rome")
        made.add(f"u{number}", "oslo")  # not counted
    with pytest.raises(InvalidInput, match="two values"):
        made.release(NoiseSource.seeded(1), "LOC")


def test_singletons_appear_with_probability_delta_at_most() -> None:
    """Of 20,000 values with one user each, a share of about delta may pass the threshold."""
    delta = 0.01
    counts = {f"v{place}": 1 for place in range(20_000)} | {"rome": 500, "oslo": 500}
    released = histogram(counts, 1.0, delta).release(NoiseSource.seeded(3), "LOC")
    passed = len(released.values) - 2
    assert abs(passed - 20_000 * delta) < 5 * math.sqrt(20_000 * delta)


def test_the_list_says_what_it_cost() -> None:
    released = histogram({"rome": 100, "oslo": 100}).release(NoiseSource.seeded(1), "LOC")
    assert released.origin is SurrogateSource.DP_HISTOGRAM
    assert released.histogram == {"epsilon": 2.0, "delta": 2e-6}


def test_bad_uses_are_refused() -> None:
    made = histogram({"rome": 100, "oslo": 100})
    made.release(NoiseSource.seeded(1), "LOC")
    with pytest.raises(InvalidInput, match="second"):
        made.release(NoiseSource.seeded(1), "LOC")
    with pytest.raises(InvalidInput, match="Expected a user"):
        PrivateHistogram(epsilon=1, delta=1e-6).add("", "rome")
    with pytest.raises(InvalidInput, match="none"):
        PrivateHistogram(epsilon=1, delta=1e-6).release(NoiseSource(), "LOC")
    with pytest.raises(InvalidInput, match="histogram epsilon > 0"):
        PrivateHistogram(epsilon=0, delta=1e-6)
