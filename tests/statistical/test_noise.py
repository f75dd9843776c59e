"""Noise has the stated distribution, and the tests detect deviations."""

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats
from tests.privacy.noise.compiled import compiled
from tests.statistical import distributions
from tests.statistical.distributions import P_VALUE, SAMPLES, Target

from sottovoce.privacy import noise
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.noise.gaussian import Ziggurat, ziggurat

WRONG_SCALES = [0.7, 1.3]
# The function `gaussian` shadows the module of that name, so import the module by path.
GAUSSIAN = importlib.import_module("sottovoce.privacy.noise.gaussian")

Draw = Callable[[float, NoiseSource], NDArray[Any]]


def added(std: float, source: NoiseSource) -> NDArray[Any]:
    """Noise that was added in place, to arrays of several sizes."""
    parts = [np.zeros(n) for n in (1, 1000, SAMPLES - 1001)]
    noise.gaussian_add_each(parts, [std] * 3, source)
    return np.concatenate(parts)


def by_kernel(std: float, source: NoiseSource) -> NDArray[Any]:
    out = np.empty(SAMPLES, np.float32)
    compiled().fill(out, std, source.fresh_key())
    return out


def added_by_kernel(std: float, source: NoiseSource) -> NDArray[Any]:
    parts = [np.zeros(n, np.float32) for n in (1, 1000, SAMPLES - 1001)]
    compiled().add(parts, [std] * 3, source.fresh_key())
    return np.concatenate(parts)


CONTINUOUS: dict[str, tuple[Draw, Callable[[float], Target]]] = {
    "gaussian64": (lambda s, source: noise.gaussian(SAMPLES, s, source), distributions.normal),
    "gaussian32": (
        lambda s, source: noise.gaussian(SAMPLES, s, source, np.float32),
        distributions.normal,
    ),
    "gaussian, added": (added, distributions.normal),
    "gaussian, kernel": (by_kernel, distributions.normal),
    "gaussian, added by the kernel": (added_by_kernel, distributions.normal),
    "laplace": (lambda s, source: noise.laplace(SAMPLES, s, source), distributions.laplace),
}
DISCRETE: dict[str, tuple[Draw, Callable[[float], Target]]] = {
    "laplace": (
        lambda s, source: noise.discrete_laplace(SAMPLES, s, source),
        distributions.discrete_laplace,
    ),
    "gaussian": (
        lambda s, source: noise.discrete_gaussian(SAMPLES, s, source),
        distributions.discrete_gaussian,
    ),
}
SCALES = [0.4, 1.0, 2.5, 300.0, 1e6]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0])
@pytest.mark.parametrize("kind", CONTINUOUS)
def test_continuous_noise_of_the_right_scale_passes(kind: str, scale: float) -> None:
    draw, target = CONTINUOUS[kind]
    assert distributions.objections(draw(scale, NoiseSource.seeded(1)), target(scale)) == []


@pytest.mark.parametrize("factor", WRONG_SCALES)
@pytest.mark.parametrize("kind", CONTINUOUS)
def test_continuous_noise_of_a_wrong_scale_fails(kind: str, factor: float) -> None:
    draw, target = CONTINUOUS[kind]
    assert distributions.objections(draw(factor, NoiseSource.seeded(1)), target(1.0))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", DISCRETE)
def test_discrete_noise_of_the_right_scale_passes(kind: str, scale: float) -> None:
    draw, target = DISCRETE[kind]
    sample = draw(scale, NoiseSource.seeded(2))
    assert distributions.discrete_objections(sample, target(scale)) == []


@pytest.mark.parametrize("factor", WRONG_SCALES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", DISCRETE)
def test_discrete_noise_of_a_wrong_scale_fails(kind: str, scale: float, factor: float) -> None:
    draw, target = DISCRETE[kind]
    sample = draw(factor * scale, NoiseSource.seeded(2))
    assert distributions.discrete_objections(sample, target(scale))


def test_noise_of_another_shape_fails() -> None:
    source = NoiseSource.seeded(3)
    as_wide_as_normal = noise.laplace(SAMPLES, 0.5**0.5, source)
    assert distributions.objections(as_wide_as_normal, distributions.normal(1.0))
    as_wide_as_laplace = noise.gaussian(SAMPLES, 2.0**0.5, source)
    assert distributions.objections(as_wide_as_laplace, distributions.laplace(1.0))
    rounded = np.rint(noise.laplace(SAMPLES, 1.0, source)).astype(np.int64)
    assert distributions.discrete_objections(rounded, distributions.discrete_laplace(1.0))
    rounded = np.rint(noise.gaussian(SAMPLES, 0.6, source)).astype(np.int64)
    assert distributions.discrete_objections(rounded, distributions.discrete_gaussian(0.6))


def test_shifted_noise_fails() -> None:
    shifted = noise.gaussian(SAMPLES, 1.0, NoiseSource.seeded(3)) + 0.02
    assert distributions.objections(shifted, distributions.normal(1.0))


def test_noise_without_its_tail_fails() -> None:
    sample = noise.gaussian(SAMPLES, 1.0, NoiseSource.seeded(1))
    without = sample[np.abs(sample) < ziggurat().tail_start]
    assert distributions.objections(without, distributions.normal(1.0))


def test_infinite_noise_fails() -> None:
    sample = noise.laplace(SAMPLES, 1.0, NoiseSource.seeded(1))
    sample[7] = np.inf
    assert distributions.objections(sample, distributions.laplace(1.0))


@pytest.mark.parametrize("height", [0.0, 1.0], ids=["wedges kept whole", "wedges cut off"])
def test_wrong_wedges_fail(height: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _wedge_p_value() > P_VALUE
    right = ziggurat()
    wrong = Ziggurat(right.edge, np.full_like(right.height, height))
    monkeypatch.setattr(GAUSSIAN, "ziggurat", lambda: wrong)
    assert _wedge_p_value() < P_VALUE


def _wedge_p_value() -> float:
    """Where between two edges do values lie? Wrong wedges make the density a staircase.

    The stairs are too low for a test of the whole distribution to see; but far out, beyond 2.5
    sigma, one step is a tenth of the density and more.
    """
    sample = np.abs(noise.gaussian(25 * SAMPLES, 1.0, NoiseSource.seeded(4)))
    far = sample[(sample > 2.5) & (sample < ziggurat().tail_start)]
    edges = ziggurat().edge[::-1]
    above = np.searchsorted(edges, far)
    low, high = special.ndtr(-edges[above]), special.ndtr(-edges[above - 1])
    return float(stats.kstest((special.ndtr(-far) - low) / (high - low), "uniform").pvalue)


Fill = Callable[[NDArray[Any], NoiseSource], None]

TAILS: dict[str, tuple[type[np.floating[Any]], Fill]] = {
    "float32": (np.float32, lambda out, source: noise.gaussian_into(out, 1.0, source)),
    "float64": (np.float64, lambda out, source: noise.gaussian_into(out, 1.0, source)),
    "kernel": (np.float32, lambda out, source: compiled().fill(out, 1.0, source.fresh_key())),
}


@pytest.mark.parametrize("kind", TAILS)
def test_the_tails_of_a_big_sample(kind: str) -> None:
    dtype, fill = TAILS[kind]
    source, out = NoiseSource.seeded(5), np.empty(1 << 20, dtype)
    rounds, reach = 32, [3.0, 3.6, 3.7, 4.0, 4.5, 5.0]
    beyond = np.zeros((len(reach), 2), int)
    for _ in range(rounds):
        fill(out, source)
        far = out[np.abs(out) > reach[0]]
        beyond += [[(far > x).sum(), (far < -x).sum()] for x in reach]
    for x, sides in zip(reach, beyond, strict=True):
        for count in sides:
            test = stats.binomtest(int(count), rounds * out.size, float(special.ndtr(-x)))
            assert test.pvalue > P_VALUE, (x, sides)
    # The twin: 30 draws beyond five sigma are expected, none would have been noticed.
    assert stats.binomtest(0, rounds * out.size, 2 * float(special.ndtr(-5.0))).pvalue < P_VALUE


def test_the_tail_itself_reaches_far_beyond_six_sigma() -> None:
    r = ziggurat().tail_start
    tail = GAUSSIAN._tail(20 * SAMPLES, NoiseSource.seeded(6))
    assert tail.min() >= r
    share = special.ndtr(-tail[:SAMPLES]) / special.ndtr(-r)
    assert stats.kstest(share, "uniform").pvalue > P_VALUE
    for x in [4.0, 5.0, 5.5, 6.0]:
        chance = float(special.ndtr(-x) / special.ndtr(-r))
        assert stats.binomtest(int((tail > x).sum()), tail.size, chance).pvalue > P_VALUE, x
    # The twin: an exponential tail, which forgets the factor exp(-x**2 / 2).
    exponential = r - np.log1p(-NoiseSource.seeded(6).uniform(SAMPLES)) / r
    share = special.ndtr(-exponential) / special.ndtr(-r)
    assert stats.kstest(share, "uniform").pvalue < P_VALUE


def test_the_tail_of_the_kernel_reaches_far_beyond_six_sigma() -> None:
    """All that lies beyond 5.8 sigma comes from words of 24 leading zeros: draw only those."""
    words = NoiseSource.seeded(13).halves(30 * SAMPLES).reshape(-1, 3, 8)
    words[:, 0] >>= 24
    tail, chance_of_zeros = compiled().values(words), 2.0**-24

    def p_values(tail: NDArray[np.float32]) -> Iterator[float]:
        for x in [5.8, 6.0, 6.25, 6.5, 6.75, 7.0]:
            chance = float(special.ndtr(-x)) / chance_of_zeros
            for side in (tail, -tail):
                yield float(stats.binomtest(int((side > x).sum()), tail.size, chance).pvalue)
        pairs = tail[:SAMPLES].reshape(-1, 2, 8).astype(np.float64)
        u = np.exp(-(pairs**2).sum(axis=1) / 2).reshape(-1)
        yield float(stats.kstest(u / chance_of_zeros, "uniform").pvalue)

    assert min(p_values(tail)) > P_VALUE
    # The twins: a uniform variable of 32 bits, or of 24, as in textbook implementations.
    for kept in (0xFF000000, 0):
        words[:, 1] &= np.uint32(kept)
        assert min(p_values(compiled().values(words))) < P_VALUE


@pytest.mark.parametrize("probability", [0.001, 0.3, 0.5, 0.98])
def test_coins(probability: float) -> None:
    heads = noise.keep_or_replace(SAMPLES, probability, NoiseSource.seeded(7))
    assert distributions.coin_objections(heads, probability) == []
    biased = probability - 0.02 if probability > 0.5 else probability + 0.02
    heads = noise.keep_or_replace(SAMPLES, biased, NoiseSource.seeded(7))
    assert distributions.coin_objections(heads, probability)


def test_draws_from_a_list() -> None:
    right, wrong = [0.5, 0.0, 0.3, 0.2], [0.52, 0.0, 0.28, 0.2]
    chosen = noise.Categorical(right).draw(SAMPLES, NoiseSource.seeded(8))
    assert distributions.choice_objections(chosen, right) == []
    chosen = noise.Categorical(wrong).draw(SAMPLES, NoiseSource.seeded(8))
    assert distributions.choice_objections(chosen, right)
    chosen = noise.Categorical([0.5, 1e-3, 0.3, 0.2]).draw(SAMPLES, NoiseSource.seeded(8))
    assert distributions.choice_objections(chosen, right)


@pytest.mark.parametrize(("categories", "epsilon"), [(2, 0.0), (2, 1.0), (5, 0.5), (40, 3.0)])
def test_randomised_response(categories: int, epsilon: float) -> None:
    truth, e = 1, np.exp(epsilon)
    expected = [1 / (e + categories - 1)] * categories
    expected[truth] = e / (e + categories - 1)
    values = np.full(SAMPLES, truth)
    answers = noise.randomised_response(values, categories, epsilon, NoiseSource.seeded(9))
    assert distributions.choice_objections(answers, expected) == []
    answers = noise.randomised_response(values, categories, epsilon + 0.3, NoiseSource.seeded(9))
    assert distributions.choice_objections(answers, expected)


@pytest.mark.parametrize("high", [3, 6, 1000])
def test_integers_are_equally_likely(high: int) -> None:
    drawn = NoiseSource.seeded(10).integers(high, SAMPLES)
    assert distributions.choice_objections(drawn, [1 / high] * high) == []
    # The twin: just enough bits and a plain remainder, the bias that `integers` avoids.
    biased = NoiseSource.seeded(10).halves(SAMPLES) % 2 ** high.bit_length() % high
    assert distributions.choice_objections(biased, [1 / high] * high)


def test_a_modulo_bias_at_full_width_is_avoided() -> None:
    """With high = 3 * 2**61 a plain remainder would favour the lower two thirds by half."""
    high = 3 * 2**61
    thirds = NoiseSource.seeded(11).integers(high, SAMPLES) // 2**61
    assert distributions.choice_objections(thirds, [1 / 3] * 3) == []
    biased = NoiseSource.seeded(11).words(SAMPLES) % np.uint64(high) // np.uint64(2**61)
    assert distributions.choice_objections(biased.astype(int), [1 / 3] * 3)


def test_uniform_is_uniform() -> None:
    flat = Target(lambda x: x + 0.5, 12**-0.5)
    drawn = NoiseSource.seeded(12).uniform(SAMPLES) - 0.5
    assert distributions.objections(drawn, flat) == []
    for factor in WRONG_SCALES:
        assert distributions.objections(drawn * factor, flat)
