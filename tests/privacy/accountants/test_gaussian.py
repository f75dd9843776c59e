"""The analytic Gaussian against 60-digit references."""

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.privacy.accountants import gaussian

# (noise multiplier, delta, epsilon), by bisection with 60 digits.
EPSILONS = [
    (1.0, 1e-5, 4.37717809568122),
    (4.0, 1e-5, 0.926341503998229),
    (1.0, 5e-4, 3.35156077554295),
    (0.5, 1e-5, 9.9972561464343),
    (0.01, 5e-4, 5328.06880414722),
    (1e-6, 5e-4, 500003290525.731),
]
# (mu, epsilon, delta)
DELTAS = [
    (1.0, 0.0, 0.382924922548026),
    (1.0, 3.0, 0.00153718536940095),
    (0.5, 1.0, 0.00682959498311458),
    (4.0, 8.0, 0.405589358698031),
    (10.0, 80.0, 0.00101096905161848),
]
# (rho of the paper's schedules, delta, epsilon of the same Gaussian mechanism)
SCHEDULES = [
    (5.0, 5e-4, 14.7244957145322),
    (8.16899699983181, 5e-4, 20.7416076731951),
    (1655.0, 5e-5, 1877.86831040732),
    (250000.0, 5e-4, 252325.756085733),
    (3.10963964249889e24, 5e-4, 3.1096396425071e24),
    (3871275000.0, 5e-4, 3871564538.24167),
    (0.125, 1e-5, 1.99309140441512),
]


@pytest.mark.parametrize(("noise", "delta", "epsilon"), EPSILONS)
def test_epsilon_of_one_release(noise: float, delta: float, epsilon: float) -> None:
    assert gaussian.epsilon_of(1 / noise, delta) == pytest.approx(epsilon, rel=1e-11)


@pytest.mark.parametrize(("mu", "epsilon", "delta"), DELTAS)
def test_delta_of_one_release(mu: float, epsilon: float, delta: float) -> None:
    assert gaussian.delta_of(mu, epsilon) == pytest.approx(delta, rel=1e-12)


@pytest.mark.parametrize(("rho", "delta", "epsilon"), SCHEDULES)
def test_epsilon_of_whole_schedules_up_to_1e25(rho: float, delta: float, epsilon: float) -> None:
    assert gaussian.epsilon_of(math.sqrt(2 * rho), delta) == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize(
    ("mu", "delta"), [(1e-3, 1e-12), (1e-5, 1e-12), (3e-7, 1e-9), (2.0, 1e-12)]
)
def test_small_epsilon_and_delta_against_60_digits(mu: float, delta: float) -> None:
    mpmath.mp.dps = 60

    def excess(epsilon: mpmath.mpf) -> mpmath.mpf:
        left = mpmath.ncdf(mu / 2 - epsilon / mu)
        return left - mpmath.e**epsilon * mpmath.ncdf(-mu / 2 - epsilon / mu) - delta

    low, high = mpmath.mpf(0), mpmath.mpf(20) * mu + 5 * mu**2
    for _ in range(150):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    assert gaussian.epsilon_of(mu, delta) == pytest.approx(float(high), rel=1e-8)


@given(st.floats(1e-2, 1e2), st.floats(1.01, 3.0), st.floats(1e-12, 0.1))
def test_more_noise_or_more_delta_is_never_worse(mu: float, factor: float, delta: float) -> None:
    assert gaussian.epsilon_of(mu / factor, delta) <= gaussian.epsilon_of(mu, delta)
    assert gaussian.epsilon_of(mu, min(delta * factor, 0.5)) <= gaussian.epsilon_of(mu, delta)


def test_no_noise_and_no_release() -> None:
    assert gaussian.epsilon_of(math.inf, 1e-5) == math.inf
    assert gaussian.epsilon_of(0.0, 1e-5) == 0
    assert gaussian.epsilon_of(1.0, 0.0) == math.inf
    assert gaussian.epsilon_of(1e-9, 1e-5) == 0  # delta alone covers so much noise
