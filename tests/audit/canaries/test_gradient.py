import numpy as np
import pytest

from sottovoce.audit.canaries import DiracCanaries, RandomCanaries, gradient_scores
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

Kind = type[DiracCanaries] | type[RandomCanaries]
KINDS: list[Kind] = [DiracCanaries, RandomCanaries]


def drawn(kind: Kind, count: int = 20, dimension: int = 400) -> DiracCanaries | RandomCanaries:
    source = NoiseSource.seeded(1)
    return kind.draw(count, dimension=dimension, clip_norm=2.0, source=source)


@pytest.mark.parametrize("kind", KINDS)
def test_every_canary_has_exactly_the_clip_norm(kind: Kind) -> None:
    canaries = drawn(kind)
    for i in np.flatnonzero(canaries.included):
        alone = np.arange(20) == i
        assert np.linalg.norm(canaries.contribution(alone)) == pytest.approx(2.0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_contribution_is_the_sum_of_the_present_and_included(kind: Kind) -> None:
    canaries = drawn(kind)
    present = np.arange(20) < 12
    apart = sum(canaries.contribution(np.arange(20) == i) for i in range(12))
    assert canaries.contribution(present) == pytest.approx(apart)
    assert not canaries.contribution(~canaries.included).any()


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_the_scores_are_the_coins(kind: Kind) -> None:
    canaries = drawn(kind)
    scores = gradient_scores(canaries, [canaries.contribution()] * 3) / (3 * 2.0)
    # Random directions overlap by about 1/sqrt(400) for each of the others.
    assert scores == pytest.approx(canaries.included.astype(float), abs=0.6)
    if kind is DiracCanaries:
        assert scores == pytest.approx(canaries.included.astype(float))


def test_dirac_canaries_do_not_share_a_coordinate() -> None:
    canaries = drawn(DiracCanaries, count=400)
    assert isinstance(canaries, DiracCanaries)
    assert sorted(canaries.coordinates.tolist()) == list(range(400))


def test_steps_count_by_their_noise() -> None:
    canaries = drawn(DiracCanaries)
    quiet, loud = np.full(400, 1.0), np.full(400, 10.0)
    weighted = gradient_scores(canaries, [quiet, loud], [0.5, 2.0])
    assert weighted == pytest.approx(canaries.along(4 * quiet + loud / 4))


def test_bad_canaries() -> None:
    with pytest.raises(InvalidInput, match="at most one Dirac canary for each of 3 coordinates"):
        drawn(DiracCanaries, count=4, dimension=3)
    with pytest.raises(InvalidInput, match="Expected dimension >= 1, got 0"):
        drawn(RandomCanaries, dimension=0)
    for kind in KINDS:
        with pytest.raises(InvalidInput, match="Expected count >= 1, got 0"):
            drawn(kind, count=0)
        with pytest.raises(InvalidInput, match="Expected clip_norm > 0, got 0"):
            kind.draw(1, dimension=3, clip_norm=0.0, source=NoiseSource())
        with pytest.raises(InvalidInput, match="Expected present as booleans of shape"):
            drawn(kind).contribution(np.ones(3, dtype=np.bool_))


def test_bad_sums() -> None:
    canaries = drawn(DiracCanaries)
    with pytest.raises(InvalidInput, match="the noisy sum of at least one step, got none"):
        gradient_scores(canaries, [])
    with pytest.raises(InvalidInput, match="Expected 400 numbers in a noisy sum, got 3"):
        gradient_scores(canaries, [np.zeros(400), np.zeros(3)])
    with pytest.raises(InvalidInput, match="Expected a noisy sum without NaN, got 400 NaN"):
        gradient_scores(canaries, [np.full(400, np.nan)])
    with pytest.raises(InvalidInput, match="Expected the noise of every step > 0, got 0"):
        gradient_scores(canaries, [np.zeros(400)] * 2, [1.0])
