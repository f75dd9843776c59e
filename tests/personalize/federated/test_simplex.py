"""Noisy counts become distributions without spurious mass."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.simplex import project, shrink, threshold
from sottovoce.personalize.rescoring.scores import Adaptation, normalised
from sottovoce.privacy import noise
from sottovoce.privacy.noise import NoiseSource

COUNTS = st.lists(st.floats(-100, 1000), min_size=1, max_size=8)


@given(COUNTS)
def test_every_result_is_a_distribution(counts: list[float]) -> None:
    u = np.full(len(counts), 1 / len(counts))
    for q in (project(counts), shrink(counts, u, 3.0), threshold(counts, u, 3.0)):
        assert (q >= 0).all()
        assert q.sum() == pytest.approx(1)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=4))
def test_projection_is_the_nearest_point(counts: list[float]) -> None:
    vector = np.array(counts)
    if vector.sum() < 0.5:
        return
    vector = vector / vector.sum()
    ours = project(vector)
    others = np.random.default_rng(0).dirichlet(np.full(len(vector), 0.5), size=2000)
    nearest = ((others - vector) ** 2).sum(axis=1).min()
    assert ((ours - vector) ** 2).sum() <= nearest + 1e-12


def test_projection_invents_less_mass_than_cutting_off() -> None:
    words, scale = 10_000, 15.0
    counts = np.zeros(words)
    counts[:100] = 10_000.0
    noisy = counts + noise.laplace(words, scale, NoiseSource.seeded(1))
    invented = np.maximum(noisy, 0)[100:].sum()
    assert invented == pytest.approx((words - 100) * scale / 2, rel=0.05)
    # Clipping at zero would leave 7 % of the mass on words with count zero.
    assert project(noisy)[100:].sum() < 0.005
    u = np.full(words, 1 / words)
    assert abs(threshold(noisy, u, scale * 2**0.5)[:100].sum() - 1) < 0.01


def test_drowned_counts_leave_the_background() -> None:
    u = np.array([0.7, 0.3])
    assert project([-1.0, -2.0]).tolist() == [0.5, 0.5]
    assert shrink([-1.0, -2.0], u, 1.0).tolist() == u.tolist()
    assert shrink([7.0, 3.0], u, 0.0) == pytest.approx(u)
    assert threshold([1.0, 1.0], u, 100.0).tolist() == u.tolist()
    assert threshold([5.0, 5.0], u, 0.0).tolist() == [0.5, 0.5]


def test_bad_input() -> None:
    u = np.array([0.5, 0.5])
    for wrong in ([float("nan"), 1.0], [[1.0]], []):
        with pytest.raises(InvalidInput, match="finite counts"):
            project(wrong)
    with pytest.raises(InvalidInput, match="Expected 2 counts"):
        shrink([1.0], u, 1.0)
    with pytest.raises(InvalidInput, match="noise_std >= 0"):
        threshold([1.0, 1.0], u, -1.0)
    with pytest.raises(InvalidInput, match="alpha \\+ beta"):
        Adaptation(alpha=0.7, beta=0.7)
    with pytest.raises(InvalidInput, match="clip > 0"):
        Adaptation(clip=0.0)


@given(st.floats(0, 6), st.floats(0.01, 3))
def test_factors_are_clipped_and_normalised(power: float, clip: float) -> None:
    u, said = np.array([0.9, 0.099, 0.001]), np.array([0.0, 0.0, 1.0])
    factors = Adaptation(alpha=0.0, beta=1.0, power=power, clip=clip).log_factors(u, u, said)
    assert np.abs(factors).max() <= clip
    assert np.exp(normalised(np.log(u), factors)).sum() == pytest.approx(1)
    free = Adaptation(alpha=0.0, beta=1.0, power=power).log_factors(u, u, said)
    assert np.isfinite(free).all()
