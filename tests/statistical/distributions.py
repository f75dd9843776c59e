"""Goodness-of-fit tests for all kinds of noise.

A tester returns the list of its objections: empty means "may well be right". Testers are tested
too: each test of noise has a twin that gives the tester noise of 0.7 and 1.3 times the scale, or
of another shape, and expects an objection (see `test_noise.py`). Too much noise is a defect like
too little.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

# Draws for one verdict: the empirical distribution function is then off by about 0.001.
SAMPLES = 200_000
# An objection is raised when right noise would look this odd once in a million times. All
# sources in the tests are seeded, so a test that passes once passes always.
P_VALUE = 1e-6
# Largest tolerated relative error of the standard deviation. For the heaviest tail here (Laplace)
# 2 % is eight standard errors at SAMPLES draws.
SCALE_ERROR = 0.02
# Cells of equal probability for the chi-square test of continuous noise.
CELLS = 256
# A cell of the chi-square test needs this many expected draws for the test to be exact enough.
LEAST_EXPECTED = 20
# The tail beyond this probability (both sides together) is tested separately: the other
# tests would not detect a missing tail.
TAIL = 2e-4

Reals = NDArray[np.floating[Any]]
Cdf = Callable[[NDArray[Any]], NDArray[np.float64]]


@dataclass(frozen=True)
class Target:
    """The distribution a sample should have."""

    cdf: Cdf
    std: float


def normal(std: float) -> Target:
    return Target(lambda x: special.ndtr(x / std), std)


def laplace(scale: float) -> Target:
    return Target(lambda x: stats.laplace.cdf(x, scale=scale), math.sqrt(2) * scale)


def discrete_laplace(scale: float) -> Target:
    q = math.exp(-1 / scale)

    def cdf(k: NDArray[Any]) -> NDArray[np.float64]:
        below, above = q ** np.maximum(-k, 0.0), q ** np.maximum(k + 1.0, 0.0)
        return np.where(k < 0, below, 1 + q - above) / (1 + q)

    return Target(cdf, math.sqrt(2 * q) / (1 - q))


def discrete_gaussian(sigma: float) -> Target:
    """By brute force; for a large sigma the rounded normal differs by less than 1e-8."""
    if sigma > 1000:
        return Target(lambda k: special.ndtr((k + 0.5) / sigma), sigma)
    reach = math.ceil(12 * sigma) + 2
    support = np.arange(-reach, reach + 1)
    weight = np.exp(-(support**2) / (2 * sigma**2))
    probability = weight / weight.sum()
    total = np.concatenate([[0.0], np.cumsum(probability)])
    return Target(
        lambda k: total[np.clip(k.astype(int) + reach + 1, 0, len(total) - 1)],
        math.sqrt(float(probability @ support**2)),
    )


def objections(sample: Reals, target: Target) -> list[str]:
    """Objections to a sample of continuous noise: its values, scale, shape, cells and tail."""
    if not np.isfinite(sample).all():
        return ["some values are not finite"]
    rank = np.clip(target.cdf(sample.astype(np.float64)), 0.0, 1.0)
    cells = np.bincount((rank * CELLS).astype(int).clip(max=CELLS - 1), minlength=CELLS)
    in_tail = int(((rank < TAIL / 2) | (rank > 1 - TAIL / 2)).sum())
    return [
        *_scale_objections(sample, target.std),
        *_improbable("Kolmogorov-Smirnov", float(stats.kstest(rank, "uniform").pvalue)),
        *_improbable("chi-square", float(stats.chisquare(cells).pvalue)),
        *_improbable("tail count", stats.binomtest(in_tail, sample.size, TAIL).pvalue),
    ]


def discrete_objections(sample: NDArray[np.int64], target: Target) -> list[str]:
    """Objections to a sample of whole numbers: its scale, and the frequencies of its values."""
    grid = np.floor(target.std * np.linspace(-6, 6, 121))
    edges = np.unique(np.concatenate([grid, [-2.0, -1.0, 0.0, 1.0]]))
    expected = np.diff(target.cdf(edges), prepend=0.0, append=1.0) * sample.size
    observed = np.bincount(np.searchsorted(edges, sample), minlength=len(expected))
    keep = expected >= LEAST_EXPECTED
    # Rare values, including the tails, are merged into one cell.
    expected = np.append(expected[keep], expected[~keep].sum())
    observed = np.append(observed[keep], observed[~keep].sum())
    statistic = float(((observed - expected) ** 2 / np.maximum(expected, 1)).sum())
    return [
        *_scale_objections(sample, target.std),
        *_improbable("chi-square", float(special.chdtrc(max(keep.sum(), 1), statistic))),
    ]


def coin_objections(heads: NDArray[np.bool_], probability: float) -> list[str]:
    """Objections to tosses of a coin that should have this probability of heads."""
    test = stats.binomtest(int(heads.sum()), heads.size, probability)
    return _improbable("heads", test.pvalue)


def choice_objections(chosen: NDArray[Any], probabilities: list[float]) -> list[str]:
    """Objections to draws from a list of alternatives with these probabilities."""
    observed = np.bincount(chosen, minlength=len(probabilities))
    expected = np.array(probabilities) * chosen.size
    if observed[expected == 0].any():
        return ["an impossible alternative was drawn"]
    possible = expected > 0
    return _improbable("chi-square", stats.chisquare(observed[possible], expected[possible]).pvalue)


def _scale_objections(sample: NDArray[Any], std: float) -> list[str]:
    # About the known mean 0, so that a shifted sample is detected as well.
    ratio = math.sqrt(float(np.mean(np.square(sample, dtype=np.float64)))) / std
    if abs(ratio - 1) <= SCALE_ERROR:
        return []
    return [f"standard deviation is {ratio:.3f} times the right one"]


def _improbable(test: str, p_value: float) -> list[str]:
    return [f"{test}: p = {p_value:.1e}"] if p_value < P_VALUE else []
